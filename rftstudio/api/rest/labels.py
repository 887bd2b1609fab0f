"""Label tasks: the form, the queue, answers, agreement, and labels written on items."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from datasets.labelling import exchange, selectors, services
from datasets.labelling import pages as label_pages
from datasets.models import Label, LabelEntry, LabelTask, Split
from datasets.selectors import version_get
from rftstudio.api.rest import pages
from rftstudio.api.rest.datasets import VersionWire
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import AnyObject, Empty, Row, Wanted, Wire, example_id
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.teams.models import User
from rftstudio.teams.permissions import Permission

_FIELD = {
    "name": "right", "label": "Is it right?", "kind": "choice", "required": True,
    "options": [{"value": "Yes", "label": "Yes", "key": "y"}, {"value": "No", "label": "No", "key": "n"}],
}  # fmt: skip


class LabelTaskWire(Row):
    name = serializers.CharField()
    instructions = serializers.CharField(allow_blank=True)
    version = serializers.CharField(source="version.public_id", allow_null=True, default=None)
    form = serializers.JSONField(source="fields", help_text="The form that people fill.")
    overlap = serializers.IntegerField()
    is_blind = serializers.BooleanField()
    shows_reference = serializers.BooleanField()
    status = serializers.ChoiceField(LabelTask.Status.values)

    example = {
        "id": example_id("lbl-"), "created_at": "2026-11-30T08:30:00Z", "name": "Right?", "instructions": "",
        "version": example_id("dver-"), "form": [_FIELD], "overlap": 2, "is_blind": True, "shows_reference": False,
        "status": "open",
    }  # fmt: skip


class LabelTaskNew(Wanted):
    name = serializers.CharField(max_length=120)
    form = serializers.ListField(child=AnyObject(), min_length=1, max_length=50)
    version = serializers.CharField(max_length=64, required=False, help_text="Left out: a queue for rollouts.")
    split = serializers.ChoiceField(Split.values, required=False)
    overlap = serializers.IntegerField(min_value=1, max_value=20, default=1)
    is_blind = serializers.BooleanField(default=True)
    shows_reference = serializers.BooleanField(default=False)
    instructions = serializers.CharField(max_length=20_000, allow_blank=True, default="")
    annotators = serializers.ListField(child=serializers.EmailField(), required=False, max_length=200)
    adjudicators = serializers.ListField(child=serializers.EmailField(), required=False, max_length=200)

    example = {"name": "Right?", "form": [_FIELD], "version": example_id("dver-"), "overlap": 2}


class LabelTaskEdit(Wanted):
    status = serializers.ChoiceField(LabelTask.Status.values)

    example = {"status": "closed"}


class LabelProgressWire(Wire):
    total = serializers.IntegerField()
    done = serializers.IntegerField()
    disputed = serializers.IntegerField()
    skipped = serializers.IntegerField()
    left_for_me = serializers.IntegerField()
    mine_today = serializers.IntegerField()
    seconds_left = serializers.FloatField(allow_null=True)

    example = {
        "total": 240, "done": 12, "disputed": 1, "skipped": 0, "left_for_me": 228, "mine_today": 12,
        "seconds_left": 5400.0,
    }  # fmt: skip


class LabelEntryWire(Wire):
    position = serializers.IntegerField()
    subject = serializers.CharField(help_text="The item's key, or a rollout's id.")
    status = serializers.ChoiceField(LabelEntry.Status.values)
    submitted = serializers.IntegerField()
    result = serializers.JSONField(help_text="The values that hold, once agreed or settled.")

    example = {"position": 0, "subject": "q-17", "status": "agreed", "submitted": 2, "result": {"right": "Yes"}}


class EntryQuery(serializers.Serializer):
    status = serializers.ChoiceField(LabelEntry.Status.values, required=False)


class LabelWire(Wire):
    annotator = serializers.CharField()
    status = serializers.ChoiceField(Label.Status.values)
    values = serializers.JSONField()
    reason = serializers.CharField(allow_blank=True)
    is_adjudication = serializers.BooleanField()
    is_flagged = serializers.BooleanField()
    submitted_at = serializers.DateTimeField(allow_null=True)

    example = {
        "annotator": "ana@example.com", "status": "submitted", "values": {"right": "Yes"}, "reason": "",
        "is_adjudication": False, "is_flagged": False, "submitted_at": "2026-11-30T09:00:00Z",
    }  # fmt: skip


class ClaimWire(Wire):
    entry = LabelEntryWire(allow_null=True, help_text="null when nothing is left for you.")
    draft = LabelWire(allow_null=True)
    shown = serializers.JSONField(help_text="The task as people see it, without what stays hidden.")

    example = {
        "entry": LabelEntryWire.example, "draft": {**LabelWire.example, "status": "draft", "submitted_at": None},
        "shown": {"title": "q-17", "messages": [], "fields": [], "steps": [], "answer": ""},
    }  # fmt: skip


class LabelAnswer(Wanted):
    values = AnyObject()
    is_flagged = serializers.BooleanField(default=False)

    example = {"values": {"right": "Yes"}}


class LabelSkip(Wanted):
    reason = serializers.CharField(max_length=500)

    example = {"reason": "The facts are missing."}


class LabelSettle(Wanted):
    values = AnyObject()

    example = {"values": {"right": "Yes"}}


class LabelApply(Wanted):
    field = serializers.CharField(max_length=120)
    rule = serializers.ChoiceField(services.RULES, default="majority")
    item_field = serializers.CharField(max_length=120, allow_blank=True, default="")
    annotator = serializers.CharField(max_length=200, allow_blank=True, default="")

    example = {"field": "right", "rule": "majority", "item_field": "reference_answer"}


class SubjectWanted(Wanted):
    subject = serializers.CharField(max_length=200)
    content = AnyObject()


class SubjectsNew(Wanted):
    subjects = SubjectWanted(many=True)

    example = {
        "subjects": [{"subject": example_id("roll-"), "content": {"messages": [], "steps": [], "answer": "120"}}]
    }


class CountWire(Wire):
    count = serializers.IntegerField()

    example = {"count": 3}


class LabelAgreementWire(Wire):
    data = serializers.ListField(child=serializers.JSONField(), help_text="One line for each field of the form.")


class StudioExport(Wanted):
    name = serializers.CharField(max_length=120)
    tasks = serializers.ListField(child=AnyObject(), min_length=1, help_text="A Label Studio export.")

    example = {"name": "Imported", "tasks": [{"id": 1, "data": {"text": "How much?"}, "annotations": []}]}


class LabelExportWire(Wire):
    data = serializers.ListField(child=serializers.JSONField(), help_text="As Label Studio imports it.")


def _people(team: Any, addresses: list[str], where: str) -> list[User]:
    found = {user.email: user for user in User.objects.filter(memberships__team=team, email__in=addresses)}
    for address in addresses:
        if address not in found:
            raise UserError(f"{address} is no member of the team.", where=where, fix="Invite the person first.")
    return list(found.values())


class TaskList(Endpoint):
    @describe("label_task_list", "List label tasks", answers=LabelTaskWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.task_list(team=self.team).select_related("version"), LabelTaskWire)

    @describe(
        "label_task_create", "Make a label task", right=Permission.DATASET_EDIT, takes=LabelTaskNew, answers=LabelTaskWire,
        status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        wanted = self.values(LabelTaskNew)
        version_id = wanted.pop("version", None)
        version = version_get(team=self.team, public_id=version_id) if version_id else None
        people: dict[str, Any] = {
            name: _people(self.team, wanted.pop(name, []), name) for name in ("annotators", "adjudicators")
        }
        made = services.task_create(
            actor=self.actor, fields=wanted.pop("form"), version=version, split=wanted.pop("split", ""), **wanted, **people
        )  # fmt: skip
        return self.shown(made, LabelTaskWire, status=201)


class TaskImportedWire(LabelTaskWire):
    left_out = serializers.DictField(
        child=serializers.IntegerField(), help_text="Answers that no field can hold, counted by their type."
    )

    example = {**LabelTaskWire.example, "left_out": {}}


class TaskImport(Endpoint):
    @describe(
        "label_task_import", "Import a Label Studio export", right=Permission.DATASET_EDIT, takes=StudioExport,
        answers=TaskImportedWire, status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        import orjson

        wanted = self.values(StudioExport)
        made, left_out = exchange.label_studio_import(
            actor=self.actor, name=wanted["name"], content=orjson.dumps(wanted["tasks"])
        )  # fmt: skip
        answer = self.shown(made, LabelTaskWire, status=201)
        answer.data["left_out"] = left_out
        return answer


class OfTask(Endpoint):
    """An address below a label task."""

    def task(self) -> LabelTask:
        return selectors.task_get(team=self.team, public_id=self.kwargs["public_id"])

    def entry(self) -> LabelEntry:
        return selectors.entry_get(task=self.task(), position=self.kwargs["position"])


class TaskDetail(OfTask):
    @describe("label_task_get", "Read a label task", answers=LabelTaskWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.task(), LabelTaskWire)

    @describe(
        "label_task_edit", "Close a task or open it again", right=Permission.DATASET_EDIT, takes=LabelTaskEdit,
        answers=LabelTaskWire, has_condition=True,
    )  # fmt: skip
    def patch(self, request: Request, public_id: str) -> Response:
        task, wanted = self.task(), self.values(LabelTaskEdit)
        return self.shown(services.task_set_status(actor=self.actor, task=task, **wanted), LabelTaskWire)


class TaskProgress(OfTask):
    @describe("label_task_progress", "See how far a task is", answers=LabelProgressWire)
    def get(self, request: Request, public_id: str) -> Response:
        return Response(asdict(selectors.task_progress(actor=self.actor, task=self.task())))


class TaskAgreement(OfTask):
    @describe("label_task_agreement", "See how far people agree", answers=LabelAgreementWire)
    def get(self, request: Request, public_id: str) -> Response:
        return Response({"data": services.agreement_of(task=self.task())})


class TaskExport(OfTask):
    @describe("label_task_export", "Export for Label Studio", right=Permission.LABEL, answers=LabelExportWire)
    def get(self, request: Request, public_id: str) -> Response:
        return Response({"data": exchange.label_studio_export(actor=self.actor, task=self.task())})


class TaskSubjects(OfTask):
    @describe(
        "label_task_add", "Queue rollouts to be judged", right=Permission.LABEL, takes=SubjectsNew, answers=CountWire
    )
    def post(self, request: Request, public_id: str) -> Response:
        task, wanted = self.task(), self.values(SubjectsNew)
        count = services.task_add_subjects(actor=self.actor, task=task, subjects=wanted["subjects"])
        return Response({"count": count})


class TaskApply(OfTask):
    @describe(
        "labels_apply", "Write labels on the items", right=Permission.DATASET_EDIT, takes=LabelApply, answers=VersionWire,
        text="A frozen version stays as it is: the answer is the new one that was made from it.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        task, wanted = self.task(), self.values(LabelApply)
        version, _ = services.labels_apply(actor=self.actor, task=task, **wanted)
        return self.shown(version, VersionWire)


class EntryList(OfTask):
    @describe("label_entry_list", "List entries", answers=LabelEntryWire, is_paged=True, query=(EntryQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        task, asked = self.task(), self.asked(pages.PageQuery, EntryQuery)
        rows = task.entries.filter(status=asked["status"]) if asked.get("status") else task.entries.all()
        return self.page(rows, LabelEntryWire, by="position", order="asc", query=asked)


class EntryClaim(OfTask):
    is_kept = False  # asked again, it answers the same entry anyway

    @describe(
        "label_entry_claim", "Take your next entry", right=Permission.LABEL, takes=Empty, answers=ClaimWire,
        is_kept=False, text="It is held for ten minutes; saving a draft renews that.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        task = self.task()
        self.values(Empty)
        entry, draft = services.entry_claim(actor=self.actor, task=task) or (None, None)
        shown = asdict(label_pages.entry_shown(entry)) if entry else None
        return self.shown({"entry": entry, "draft": draft, "shown": shown}, ClaimWire)


class EntryLabels(OfTask):
    @describe("label_list", "Read the labels of an entry that you may see", answers=LabelWire, is_list=True)
    def get(self, request: Request, public_id: str, position: int) -> Response:
        entry = self.entry()
        rows = selectors.labels_visible(actor=self.actor, task=entry.task).filter(entry=entry)
        return self.listed(rows.order_by("pk"), LabelWire)


class EntryDraft(OfTask):
    @describe("label_save", "Keep your draft", right=Permission.LABEL, takes=LabelAnswer, answers=LabelWire)
    def put(self, request: Request, public_id: str, position: int) -> Response:
        entry, wanted = self.entry(), self.values(LabelAnswer)
        return self.shown(services.label_save(actor=self.actor, entry=entry, **wanted), LabelWire)


class EntrySubmit(OfTask):
    @describe("label_submit", "Hand your answer in", right=Permission.LABEL, takes=LabelAnswer, answers=LabelEntryWire)
    def post(self, request: Request, public_id: str, position: int) -> Response:
        entry, wanted = self.entry(), self.values(LabelAnswer)
        return self.shown(services.label_submit(actor=self.actor, entry=entry, **wanted), LabelEntryWire)


class EntrySkip(OfTask):
    @describe("label_skip", "Pass an entry on", right=Permission.LABEL, takes=LabelSkip, answers=LabelEntryWire)
    def post(self, request: Request, public_id: str, position: int) -> Response:
        entry, wanted = self.entry(), self.values(LabelSkip)
        return self.shown(services.label_skip(actor=self.actor, entry=entry, **wanted), LabelEntryWire)


class EntrySettle(OfTask):
    @describe(
        "label_settle", "Decide a disputed entry", right=Permission.LABEL, takes=LabelSettle, answers=LabelEntryWire
    )
    def post(self, request: Request, public_id: str, position: int) -> Response:
        entry, wanted = self.entry(), self.values(LabelSettle)
        if not selectors.is_adjudicator(self.actor, entry.task):
            raise NotAllowed("You are not among the people who settle this task.", fix="Ask its maker to name you.")
        return self.shown(services.entry_adjudicate(actor=self.actor, entry=entry, **wanted), LabelEntryWire)


class LabelUndo(OfTask):
    @describe("label_undo", "Open your last answer again", right=Permission.LABEL, takes=Empty, answers=LabelEntryWire)
    def post(self, request: Request, public_id: str) -> Response:
        task = self.task()
        self.values(Empty)
        entry = services.label_undo(actor=self.actor, task=task)
        if entry is None:
            raise Conflict("There is nothing to take back.")
        return self.shown(entry, LabelEntryWire)
