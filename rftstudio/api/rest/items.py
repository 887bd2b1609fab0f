"""Items of a version, lines that did not become items, and the changes of a draft."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from datasets import repairs, selectors
from datasets.item_search import items_found
from datasets.models import DatasetVersion, Item, LineProblem, Split
from datasets.row_checks import FAULTS
from rftstudio.api.rest import pages
from rftstudio.api.rest.datasets import EDIT, OfVersion
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.wire import AnyObject, Wanted, Wire
from rftstudio.core.errors import NotFound

LAST_ID = 2**63 - 1
_DATA = {"messages": [{"role": "user", "content": "What duty is due on 40 crates of pears?"}], "answer": "120"}


class ItemWire(Wire):
    key = serializers.CharField()
    position = serializers.IntegerField(help_text="0-based place in the version.")
    line = serializers.IntegerField(help_text="1-based line in the source file; 0 when there is none.")
    title = serializers.CharField(allow_blank=True)
    split = serializers.ChoiceField(Split.values)
    problem = serializers.CharField(allow_blank=True, help_text="Code of what keeps it from being trained on.")
    data = serializers.JSONField(help_text="The row.")

    example = {
        "key": "q-17", "position": 16, "line": 17, "title": "What duty is due on 40 crates of pears?",
        "split": "train", "problem": "", "data": _DATA,
    }  # fmt: skip


class ItemQuery(serializers.Serializer):
    split = serializers.ChoiceField(Split.values, required=False)
    problem = serializers.ChoiceField([*FAULTS], required=False)
    q = serializers.CharField(
        max_length=200, required=False, help_text="Whole words of the row, or tax* for any ending."
    )


class ItemsNew(Wanted):
    rows = serializers.ListField(child=AnyObject(), min_length=1, max_length=5000)
    title = serializers.CharField(max_length=200, allow_blank=True, default="", help_text="For the history.")

    example = {"rows": [_DATA]}


class ItemEdit(Wanted):
    data = AnyObject()
    title = serializers.CharField(max_length=200, allow_blank=True, default="", help_text="For the history.")

    example = {"data": _DATA}


class ItemsDrop(Wanted):
    keys = serializers.ListField(child=serializers.CharField(max_length=200), required=False, max_length=5000)
    code = serializers.CharField(max_length=32, required=False, help_text="A fault, or `duplicate_question`.")

    example = {"keys": ["q-17"]}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.get("keys") and not attrs.get("code"):
            raise serializers.ValidationError("Name keys or a code.")
        return attrs


class ChangeWire(Wire):
    id = serializers.IntegerField(source="pk")
    verb = serializers.CharField()
    title = serializers.CharField()
    made_by = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    undone_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": 12, "verb": "items_drop", "title": "Left out", "made_by": "ana@example.com", "count": 1,
        "created_at": "2026-11-30T08:20:00Z", "undone_at": None,
    }  # fmt: skip


class LineProblemWire(Wire):
    id = serializers.IntegerField(source="pk")
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    code = serializers.CharField()
    message = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)
    text = serializers.CharField(allow_blank=True, help_text="The line, at most 64 kB of it.")
    is_cut = serializers.BooleanField()
    state = serializers.ChoiceField(LineProblem.State.values)

    example = {
        "id": 3, "line": 41, "column": 8, "code": "not_json", "message": "The line is no JSON.",
        "fix": "Close the brace.", "text": '{"messages": [', "is_cut": False, "state": "open",
    }  # fmt: skip


class ProblemQuery(serializers.Serializer):
    state = serializers.ChoiceField(LineProblem.State.values, required=False)
    code = serializers.CharField(max_length=32, required=False)


class LineEdit(Wanted):
    text = serializers.CharField(max_length=1_000_000, trim_whitespace=False)

    example = {"text": '{"messages": [{"role": "user", "content": "How much?"}]}'}


class KindFix(Wanted):
    code = serializers.CharField(max_length=32)

    example = {"code": "ends_with_answer"}


class LinesSkip(Wanted):
    code = serializers.CharField(max_length=32, allow_blank=True, default="", help_text="Left out: all that are open.")

    example = {"code": "not_json"}


class ItemsMap(Wanted):
    mapping = serializers.DictField(child=serializers.CharField(max_length=200))

    example = {"mapping": {"prompt": "question", "reference": "answer"}}


class ChangeUndo(Wanted):
    change = serializers.IntegerField(min_value=1, max_value=2**62)

    example = {"change": 12}


class ItemList(OfVersion):
    @describe("item_list", "List items", answers=ItemWire, is_paged=True, query=(ItemQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        version = self.version()
        asked = self.asked(pages.PageQuery, ItemQuery)
        filters = {name: asked[name] for name in ("split", "problem") if asked.get(name)}
        if words := asked.get("q"):
            return self.paged(pages.page_found(_finder(version, words, filters), asked, order="asc"), ItemWire)
        rows = selectors.item_list(team=self.team, version=version).filter(**filters)
        return self.page(rows, ItemWire, by="position", order="asc", query=asked)

    @describe("item_create", "Add items to a draft", right=EDIT, takes=ItemsNew, answers=ChangeWire, status=201)
    def post(self, request: Request, public_id: str) -> Response:
        version = self.version()
        change = repairs.items_add(actor=self.actor, version=version, **self.values(ItemsNew))
        return self.shown(change, ChangeWire, status=201)


def _finder(version: DatasetVersion, words: str, filters: dict[str, str]) -> pages.Finder:
    """The text index finds ids in their order, from either end."""

    def find(number: int | None, count: int, falls: bool) -> list[Item]:
        before = (LAST_ID if number is None else number) if falls else None
        ids = items_found(version, words, after=None if falls else number, before=before, limit=count, **filters)
        rows = Item.objects.in_bulk(ids)
        return [rows[pk] for pk in ids if pk in rows]

    return find


class ItemDetail(OfVersion):
    def item(self) -> Item:
        rows = selectors.item_list(team=self.team, version=self.version())
        found = rows.filter(position=self.kwargs["position"]).select_related("version").first()
        if found is None:
            raise NotFound("There is nothing at this address.")
        return found

    @describe("item_get", "Read an item", answers=ItemWire)
    def get(self, request: Request, public_id: str, position: int) -> Response:
        return self.shown(self.item(), ItemWire)

    @describe(
        "item_edit", "Give an item of a draft another row", right=EDIT, takes=ItemEdit, answers=ItemWire,
        has_condition=True,
    )  # fmt: skip
    def put(self, request: Request, public_id: str, position: int) -> Response:
        item, wanted = self.item(), self.values(ItemEdit)
        repairs.item_edit(actor=self.actor, item=item, value=wanted["data"], title=wanted["title"])
        return self.shown(self.item(), ItemWire)


class ChangeList(OfVersion):
    @describe("change_list", "List the changes of a draft", answers=ChangeWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.page(self.version().changes.all(), ChangeWire)


class ProblemList(OfVersion):
    @describe(
        "line_problem_list",
        "List lines that are no items",
        answers=LineProblemWire,
        is_paged=True,
        query=(ProblemQuery,),
    )
    def get(self, request: Request, public_id: str) -> Response:
        version = self.version()
        asked = self.asked(pages.PageQuery, ProblemQuery)
        chosen = {name: asked[name] for name in ("state", "code") if asked.get(name)}
        return self.page(version.problems.filter(**chosen), LineProblemWire, order="asc", query=asked)


class ProblemDetail(OfVersion):
    def problem(self) -> LineProblem:
        found = self.version().problems.filter(pk=self.kwargs["problem_id"]).first()
        if found is None:
            raise NotFound("There is nothing at this address.")
        return found

    @describe("line_problem_get", "Read a line that is no item", answers=LineProblemWire)
    def get(self, request: Request, public_id: str, problem_id: int) -> Response:
        return self.shown(self.problem(), LineProblemWire)

    @describe(
        "line_edit", "Take a refused line in as typed anew", right=EDIT, takes=LineEdit, answers=ChangeWire,
        has_condition=True,
    )  # fmt: skip
    def put(self, request: Request, public_id: str, problem_id: int) -> Response:
        problem = self.problem()
        text = self.values(LineEdit)["text"]
        change = repairs.line_edit(actor=self.actor, version=problem.version, problem_id=problem.pk, text=text)
        return self.shown(change, ChangeWire)


class ItemsDropped(OfVersion):
    @describe("items_drop", "Take items out of a draft", right=EDIT, takes=ItemsDrop, answers=ChangeWire)
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(ItemsDrop)
        return self.shown(repairs.items_drop(actor=self.actor, version=version, **wanted), ChangeWire)


class KindFixed(OfVersion):
    @describe("kind_fix", "Apply the fix of a kind of fault", right=EDIT, takes=KindFix, answers=ChangeWire)
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(KindFix)
        return self.shown(repairs.kind_fix(actor=self.actor, version=version, **wanted), ChangeWire)


class LinesSkipped(OfVersion):
    @describe("lines_skip", "Leave lines out for good", right=EDIT, takes=LinesSkip, answers=ChangeWire)
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(LinesSkip)
        return self.shown(repairs.lines_skip(actor=self.actor, version=version, **wanted), ChangeWire)


class ItemsMapped(OfVersion):
    @describe("items_map", "Make messages of columns", right=EDIT, takes=ItemsMap, answers=ChangeWire)
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(ItemsMap)
        return self.shown(repairs.items_map(actor=self.actor, version=version, **wanted), ChangeWire)


class ChangeUndone(OfVersion):
    @describe("change_undo", "Take the newest change back", right=EDIT, takes=ChangeUndo, answers=ChangeWire)
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(ChangeUndo)
        change = repairs.change_undo(actor=self.actor, version=version, change_id=wanted["change"])
        return self.shown(change, ChangeWire)
