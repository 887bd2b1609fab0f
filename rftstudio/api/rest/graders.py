"""Graders: drafts, versions, and trying them out. Trials store nothing; those that call a judge ask for the right to edit."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from graders import selectors, services
from graders.calibration import Calibration, Pair, calibrate
from graders.gaming import gaming_results
from graders.labels import labelled_samples, questions
from graders.models import Grader
from graders.sample_sources import StoredSample, field_samples, item_at, stored_samples, version_chosen
from graders.samples import sample_from
from graders.secrets import seal_config, shown_config
from graders.starting import starting_points
from graders.trials import SetTrial, set_run, trial_run
from graders.validation import grader_problems, is_costly
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import AnyObject, Empty, Row, Wanted, Wire, example_id
from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.teams.permissions import Permission, check_can

EDIT = Permission.GRADER_EDIT
GAMING_ITEMS, GAMING_ITEMS_COSTLY = 10, 2
SET_COSTLY = 20
_EXACT = {
    "type": "string_check", "name": "exact", "operation": "eq", "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}  # fmt: skip


class GraderWire(Row):
    name = serializers.CharField()
    slug = serializers.CharField()
    draft = serializers.SerializerMethodField(help_text="The recipe being edited; header values are asterisks.")

    example = {
        "id": example_id("grader-"), "created_at": "2026-11-30T08:40:00Z", "name": "Exact", "slug": "exact",
        "draft": _EXACT,
    }  # fmt: skip

    def get_draft(self, grader: Grader) -> dict[str, Any]:
        return shown_config(grader.draft)


class GraderVersionWire(Row):
    grader = serializers.CharField(source="grader.public_id")
    number = serializers.IntegerField()
    config = serializers.SerializerMethodField(help_text="The recipe; header values are asterisks.")
    pass_threshold = serializers.FloatField()
    note = serializers.CharField(allow_blank=True)

    example = {
        "id": example_id("gver-"), "created_at": "2026-11-30T08:45:00Z", "grader": example_id("grader-"), "number": 1,
        "config": _EXACT, "pass_threshold": 0.5, "note": "",
    }  # fmt: skip

    def get_config(self, version: Any) -> dict[str, Any]:
        return shown_config(version.config)


class GraderNew(Wanted):
    name = serializers.CharField(max_length=120)
    config = AnyObject(help_text="The recipe in the wire format; it may still have faults.")

    example = {"name": "Exact", "config": _EXACT}


class GraderEdit(Wanted):
    name = serializers.CharField(max_length=120, required=False)
    config = AnyObject()

    example = {"config": _EXACT}


class GraderPublish(Wanted):
    pass_threshold = serializers.FloatField(required=False, allow_null=True)
    note = serializers.CharField(max_length=200, allow_blank=True, default="")

    example = {"pass_threshold": 0.75, "note": "First"}


class RecipeProblemWire(Wire):
    path = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)
    level = serializers.ChoiceField(["error", "warning"])

    example = {
        "path": "operation", "code": "bad_choice", "message": "There is no operation 'is'.", "fix": "Write eq.",
        "level": "error",
    }  # fmt: skip


class CheckWanted(Wanted):
    config = AnyObject()
    version = serializers.CharField(max_length=64, required=False, help_text="Whose fields the recipe may name.")

    example = {"config": _EXACT}


class GradeWire(Wire):
    reward = serializers.FloatField(allow_null=True, help_text="null is ungraded, which is not 0.")
    sub_rewards = serializers.DictField(child=serializers.FloatField(allow_null=True))
    errors = serializers.JSONField()
    details = serializers.CharField(allow_blank=True)
    step_rewards = serializers.ListField(child=serializers.FloatField(allow_null=True))
    usage = serializers.JSONField(help_text="Model → token counts.")
    milliseconds = serializers.FloatField()

    example = {
        "reward": 1.0, "sub_rewards": {}, "errors": {}, "details": "", "step_rewards": [], "usage": {},
        "milliseconds": 0.2,
    }  # fmt: skip


class TestWanted(Wanted):
    config = AnyObject(required=False, help_text="Left out: the draft.")
    item = AnyObject(required=False)
    sample = serializers.JSONField(required=False, help_text="The answer as text, or the wire format's `sample`.")
    rollout = serializers.CharField(max_length=64, required=False, help_text="A stored rollout instead of both.")

    example = {"item": {"answer": "120"}, "sample": "120"}


class TestWire(Wire):
    grade = GradeWire()
    passed = serializers.BooleanField(allow_null=True)
    arithmetic = serializers.CharField(allow_blank=True)
    published = GradeWire(allow_null=True, help_text="What the newest published version gives.")
    is_repeatable = serializers.BooleanField(allow_null=True)
    usd = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True)

    example = {
        "grade": GradeWire.example, "passed": True, "arithmetic": "", "published": None, "is_repeatable": True,
        "usd": None,
    }  # fmt: skip


class SetWanted(Wanted):
    source = serializers.CharField(
        max_length=200, default="rollouts", help_text="`rollouts`, or `field:NAME`: each item answered by that field."
    )
    size = serializers.IntegerField(min_value=1, max_value=500, default=20)
    version = serializers.CharField(max_length=64, required=False, help_text="Left out: the newest with items.")

    example = {"source": "rollouts", "size": 20}


class SetWire(Wire):
    rewards = serializers.ListField(child=serializers.FloatField(allow_null=True))
    before = serializers.ListField(child=serializers.FloatField(allow_null=True))
    samples = serializers.ListField(child=serializers.CharField())
    mean = serializers.FloatField(allow_null=True)
    mean_before = serializers.FloatField(allow_null=True)
    ungraded = serializers.IntegerField()
    ties = serializers.IntegerField()
    share_zero = serializers.FloatField(allow_null=True)
    share_one = serializers.FloatField(allow_null=True)
    was_cut = serializers.BooleanField()
    why_ungraded = serializers.CharField(allow_blank=True)

    example = {
        "rewards": [1.0, 0.0], "before": [], "samples": [example_id("roll-"), "roll-Zt2"], "mean": 0.5,
        "mean_before": None, "ungraded": 0, "ties": 0, "share_zero": 0.5, "share_one": 0.5, "was_cut": False,
        "why_ungraded": "",
    }  # fmt: skip


class GamingWanted(Wanted):
    version = serializers.CharField(max_length=64, required=False, help_text="Whose items the tricks are tried on.")

    example = {}


class TrickWire(Wire):
    key = serializers.CharField(source="trick.key")
    title = serializers.CharField(source="trick.title")
    why = serializers.CharField(source="trick.why")
    state = serializers.ChoiceField(["ok", "bad", "info", "ungraded"])
    fooled = serializers.IntegerField()
    graded = serializers.IntegerField()
    best = serializers.FloatField(allow_null=True)
    item_key = serializers.CharField(allow_blank=True)
    answer = serializers.CharField(source="example", allow_blank=True, help_text="The answer that earned most.")

    example = {
        "key": "empty", "title": "Empty answer", "why": "Nothing was answered.", "state": "ok", "fooled": 0,
        "graded": 10, "best": 0.0, "item_key": "q-1", "answer": "",
    }  # fmt: skip


class AgreementWanted(Wanted):
    question = serializers.CharField(max_length=200, required=False, help_text="Left out: the most answered one.")
    good = serializers.ListField(child=serializers.CharField(max_length=200), required=False, max_length=50)
    version = serializers.CharField(max_length=64, required=False)

    example = {}


class AgreementWire(Wire):
    question = serializers.CharField()
    count = serializers.IntegerField()
    agreement = serializers.JSONField(help_text="Share of equal verdicts at the pass mark, with its 90 % interval.")
    spearman = serializers.JSONField()
    kappa = serializers.FloatField(allow_null=True)
    length_bias = serializers.JSONField()
    confusion = serializers.ListField(child=serializers.JSONField())
    disagreements = serializers.ListField(child=serializers.JSONField())


class StartingPointWire(Wire):
    key = serializers.CharField()
    title = serializers.CharField()
    field = serializers.CharField(allow_blank=True)
    about = serializers.CharField(allow_blank=True)
    config = serializers.JSONField()


class GraderList(Endpoint):
    @describe("grader_list", "List graders", answers=GraderWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(Grader.objects.filter(team=self.team), GraderWire)

    @describe(
        "grader_create", "Start a grader with a draft", right=EDIT, takes=GraderNew, answers=GraderWire, status=201
    )
    def post(self, request: Request) -> Response:
        made = services.grader_create(actor=self.actor, **self.values(GraderNew))
        return self.shown(made, GraderWire, status=201)


class GraderCheck(Endpoint):
    is_kept = False

    @describe(
        "grader_check", "Check a recipe", takes=CheckWanted, answers=RecipeProblemWire, is_list=True, is_kept=False,
        text="Nothing is stored. No rows mean that it may be published.",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        wanted = self.values(CheckWanted)
        fields = version_chosen(team=self.team, public_id=wanted["version"]).fields if wanted.get("version") else None
        return self.listed(grader_problems(wanted["config"], fields=fields or None), RecipeProblemWire)


class StartingPoints(Endpoint):
    @describe("grader_starting_points", "List recipes to start from", answers=StartingPointWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(sorted(starting_points().values(), key=lambda one: one.order), StartingPointWire)


class OfGrader(Endpoint):
    """An address below a grader."""

    def grader(self) -> Grader:
        return selectors.grader_get(team=self.team, public_id=self.kwargs["public_id"])

    def recipe(self, grader: Grader, config: dict[str, Any] | None = None) -> dict[str, Any]:
        """What is tried: the given recipe with stored headers behind its asterisks, or the draft. Judges cost money."""
        found = seal_config(config, grader.draft) if config is not None else grader.draft
        if is_costly(found):
            check_can(self.actor, EDIT, team=self.team)
        return found


class GraderDetail(OfGrader):
    @describe("grader_get", "Read a grader", answers=GraderWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.grader(), GraderWire)

    @describe("grader_edit", "Change the draft", right=EDIT, takes=GraderEdit, answers=GraderWire, has_condition=True)
    def patch(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(GraderEdit)
        return self.shown(services.grader_draft_save(actor=self.actor, grader=grader, **wanted), GraderWire)


class GraderDiscard(OfGrader):
    @describe("grader_discard", "Go back to the newest version", right=EDIT, takes=Empty, answers=GraderWire)
    def post(self, request: Request, public_id: str) -> Response:
        grader = self.grader()
        self.values(Empty)
        return self.shown(services.grader_draft_discard(actor=self.actor, grader=grader), GraderWire)


class GraderVersions(OfGrader):
    @describe("grader_version_list", "List a grader's versions", answers=GraderVersionWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        rows = selectors.grader_version_list(team=self.team, grader=self.grader()).select_related("grader")
        return self.page(rows, GraderVersionWire, by="number")

    @describe(
        "grader_publish", "Freeze the draft as the next version", right=EDIT, takes=GraderPublish,
        answers=GraderVersionWire, status=201,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(GraderPublish)
        made = services.grader_version_publish(actor=self.actor, grader=grader, **wanted)
        return self.shown(made, GraderVersionWire, status=201)


class GraderVersionDetail(Endpoint):
    @describe("grader_version_get", "Read a grader version", answers=GraderVersionWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.grader_version_get(team=self.team, public_id=public_id), GraderVersionWire)


class GraderTest(OfGrader):
    is_kept = False

    @describe("grader_test", "Grade one sample", takes=TestWanted, answers=TestWire, is_kept=False)
    def post(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(TestWanted)
        config = self.recipe(grader, wanted.get("config"))
        item, sample = wanted.get("item", {}), wanted.get("sample", "")
        if rollout := wanted.get("rollout"):
            stored = next(iter(stored_samples(team=self.team, rollout=rollout)), None)
            if stored is None:
                raise NotFound("There is no such rollout.")
            item, sample = stored.item, stored.sample
        elif not isinstance(sample, (str, dict)):
            raise UserError("A sample is a text or an object.", where="sample", fix='Write {"output_text": "…"}.')
        else:
            sample = _sample(sample)
        trial = trial_run(
            actor=self.actor, team=self.team, config=config, item=item, sample=sample,
            published=selectors.grader_version_newest(grader=grader),
        )  # fmt: skip
        return self.shown(trial, TestWire)


def _sample(given: str | dict[str, Any]) -> Any:
    try:
        return sample_from(given)
    except (TypeError, ValueError, AttributeError, KeyError) as exc:
        raise UserError(f"This is no sample: {exc}.", where="sample", fix='Write {"output_text": "…"}.') from exc


class GraderSet(OfGrader):
    is_kept = False

    @describe("grader_set", "Grade many samples with the draft", takes=SetWanted, answers=SetWire, is_kept=False)
    def post(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(SetWanted)
        config = self.recipe(grader)
        size = min(wanted["size"], SET_COSTLY) if is_costly(config) else wanted["size"]
        trial = set_run(
            actor=self.actor, team=self.team, config=config, samples=self._samples(wanted, size),
            published=selectors.grader_version_newest(grader=grader),
        )  # fmt: skip
        return Response(_set_wire(trial))

    def _samples(self, wanted: dict[str, Any], size: int) -> list[StoredSample]:
        version = version_chosen(team=self.team, public_id=wanted.get("version", "")).version
        if wanted["source"] == "rollouts":
            return stored_samples(team=self.team, version=version if wanted.get("version") else None, limit=size)
        if not wanted["source"].startswith("field:"):
            raise UserError("There is no such source.", where="source", fix="Write rollouts, or field:NAME.")
        if version is None:
            return []
        name = wanted["source"].removeprefix("field:")
        return list(field_samples(team=self.team, version=version, source=name, limit=size))


def _set_wire(trial: SetTrial) -> dict[str, Any]:
    return {
        "rewards": trial.rewards, "before": trial.before, "samples": [stored.id or stored.item_key for stored in trial.samples],
        "mean": trial.mean, "mean_before": trial.mean_before, "ungraded": trial.ungraded, "ties": trial.ties,
        "share_zero": trial.share_of(0.0), "share_one": trial.share_of(1.0), "was_cut": trial.was_cut,
        "why_ungraded": trial.why_ungraded,
    }  # fmt: skip


class GraderGaming(OfGrader):
    is_kept = False

    @describe(
        "grader_gaming", "Try cheap tricks on the draft", takes=GamingWanted, answers=TrickWire, is_list=True,
        is_kept=False,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(GamingWanted)
        config = self.recipe(grader)
        version = version_chosen(team=self.team, public_id=wanted.get("version", "")).version
        if version is None:
            raise UserError("There are no items to try the tricks on.", where="version", fix="Import a dataset first.")
        count = GAMING_ITEMS_COSTLY if is_costly(config) else GAMING_ITEMS
        rows = [item_at(team=self.team, version=version, position=n) for n in range(count)]
        items = list({row.key: (row.key, row.data) for row in rows if row}.values())
        mark = config.get("pass_threshold")
        with services.draft_compiled(team=self.team, config=config) as compiled:
            results = gaming_results(compiled, items, pass_mark=0.5 if mark is None else float(mark))
        return self.listed(results, TrickWire)


class GraderAgreement(OfGrader):
    is_kept = False

    @describe(
        "grader_agreement", "Compare the draft with people's labels", takes=AgreementWanted, answers=AgreementWire,
        is_kept=False,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        grader, wanted = self.grader(), self.values(AgreementWanted)
        config = self.recipe(grader)
        version = version_chosen(team=self.team, public_id=wanted.get("version", "")).version
        asked = questions(team=self.team, version=version)
        question = (
            next((one for one in asked if one.id == wanted["question"]), None) if wanted.get("question") else None
        )
        question = question or (asked[0] if asked and not wanted.get("question") else None)
        if question is None:
            raise Conflict(
                "There are no labels for such a question.", where="question", fix="Have rollouts judged first."
            )
        labelled = labelled_samples(team=self.team, version=version, question=question, good=wanted.get("good", []))
        trial = set_run(actor=self.actor, team=self.team, config=config, samples=labelled)
        pairs = [
            Pair(stored.id, grade.reward, stored.label, len(stored.sample.output_text))
            for stored, grade in zip(trial.samples, trial.grades, strict=True)
            if grade.reward is not None and stored.label is not None
        ]
        mark = config.get("pass_threshold")
        found = calibrate(pairs, pass_mark=0.5 if mark is None else float(mark))
        if found is None:
            raise Conflict("No labelled rollout could be graded.", fix="Test the draft on one of them.")
        return Response(_agreement_wire(question.title, found))


def _agreement_wire(title: str, found: Calibration) -> dict[str, Any]:
    def measured(one: Any) -> dict[str, float] | None:
        return None if one is None else {"value": one.value, "low": one.low, "high": one.high}

    return {
        "question": title, "count": found.count, "agreement": measured(found.agreement),
        "spearman": measured(found.spearman), "kappa": found.kappa, "length_bias": measured(found.length_bias),
        "confusion": [
            {"grader_passes": ours, "people_pass": theirs, "count": count}
            for (ours, theirs), count in found.confusion.items()
        ],
        "disagreements": [
            {"rollout": pair.id, "reward": pair.reward, "label": pair.label} for pair in found.disagreements[:20]
        ],
    }  # fmt: skip
