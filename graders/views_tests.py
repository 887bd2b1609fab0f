"""Pages and fragments that try a grader out. They write nothing."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_http_methods, require_POST

from graders.calibration import Calibration, Pair, calibrate
from graders.charts import agreement_scatter, reward_histogram
from graders.drawings import dot_strip
from graders.forms import config_from
from graders.gaming import gaming_results
from graders.labels import labelled_samples, questions
from graders.live_test import live_test_context
from graders.models import Grader
from graders.pages import Editor, editor_context, editor_of
from graders.sample_sources import StoredSample, example_samples, field_samples, item_at, stored_samples
from graders.secrets import seal_config
from graders.selectors import grader_get
from graders.services import draft_compiled
from graders.trials import SetTrial, set_run
from graders.validation import is_costly
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest, team_view

SET_SIZES = (20, 100, 500)
GAMING_ITEMS, GAMING_ITEMS_COSTLY = 10, 2
DISAGREEMENTS = 20
BESIDE = 20


def _posted(request: HttpRequest, grader: Grader) -> dict[str, Any]:
    """The draft as it stands in the form, with stored header values behind their asterisks."""
    return seal_config(config_from(request.POST), grader.draft)


@team_view
@require_POST
def grader_check(request: TeamRequest, public_id: str) -> HttpResponse:
    """Check what stands in the form, while it is being typed; tests it too when that costs nothing."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    config = _posted(request, grader)
    editor = editor_of(grader, config, dataset=request.POST.get("dataset", ""))
    context = {**editor_context(request, editor, "detail"), "is_fragment": True}
    if not is_costly(config):
        context |= live_test_context(request, editor, request.POST)
    return render(request, "graders/_check.html", context)


@team_view
@require_POST
def grader_test(request: TeamRequest, public_id: str) -> HttpResponse:
    """Grade one sample with the draft in the form. Plain POST answers the whole page, htmx the result alone."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    editor = editor_of(grader, _posted(request, grader), dataset=request.POST.get("dataset", ""))
    context = {
        **editor_context(request, editor, "detail"),
        **live_test_context(request, editor, request.POST, is_asked=True),
    }
    template = "graders/_test_panel.html" if request.htmx else "graders/grader_detail.html"
    return render(request, template, context)


@team_view
@require_POST
def grader_samples(request: TeamRequest, public_id: str) -> HttpResponse:
    """The draft in the form against the published version, on the newest stored rollouts: a box beside the form.

    A draft that calls a judge is run only when its button was pressed.
    """
    grader = grader_get(team=request.actor.team, public_id=public_id)
    editor = editor_of(grader, _posted(request, grader), dataset=request.POST.get("dataset", ""))
    context = editor_context(request, editor, "detail")
    context["samples"] = (
        []
        if editor.choice.is_examples
        else stored_samples(team=grader.team, version=editor.choice.version, limit=BESIDE)
    )
    costly = is_costly(editor.config)
    if editor.is_valid and context["samples"] and (not costly or request.POST.get("run")):
        if costly:
            check_can(request.actor, Permission.GRADER_EDIT, team=grader.team)
        trial = set_run(
            actor=request.actor, team=grader.team, config=editor.config, samples=context["samples"],
            published=editor.newest,
        )  # fmt: skip
        context |= {"trial": trial, "strips": _strips(trial, editor)}
    return render(request, "graders/_samples.html", context)


def _strips(trial: SetTrial, editor: Editor) -> list[dict[str, Any]]:
    """A line of dots for the published version and one for the draft."""
    low = min([0.0, *trial.graded, *(reward for reward in trial.before if reward is not None)])
    high = max([1.0, *trial.graded, *(reward for reward in trial.before if reward is not None)])
    mark = _pass_mark(editor)
    number = editor.newest.number if editor.newest else 0
    lines = [(f"Version {number}", trial.before, trial.mean_before, "ink-2")] if trial.before else []
    lines.append((f"Draft {number + 1}", trial.rewards, trial.mean, "c1"))
    return [
        {"name": name, "mean": mean, "drawing": mark_safe(dot_strip(rewards, low=low, high=high, mark=mark, tone=tone))}  # noqa: S308 numbers only
        for name, rewards, mean, tone in lines
    ]


@team_view
@require_http_methods(["GET", "POST"])
def grader_set(request: TeamRequest, public_id: str) -> HttpResponse:
    """The draft on many samples: stored rollouts, or each item answered by one of its fields."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    editor = editor_of(grader, grader.draft, dataset=(request.POST or request.GET).get("dataset", ""))
    context = editor_context(request, editor, "set")
    data = request.POST or request.GET
    source, size = data.get("source", ""), data.get("size", "20")
    size = int(size) if size in map(str, SET_SIZES) else SET_SIZES[0]
    size = min(size, SET_SIZES[0]) if is_costly(editor.config) else size
    context |= {"source": source, "size": size, "sizes": SET_SIZES, "fields": sorted(editor.choice.fields)}
    if source and editor.is_valid and _is_asked(request, editor):
        samples = _samples(editor, source, size)
        trial = set_run(
            actor=request.actor, team=grader.team, config=editor.config, samples=samples, published=editor.newest
        )
        context |= {"trial": trial, "rows": _rows(trial), "figure": _figure(trial, editor)}
        context |= {"share_zero": trial.share_of(0.0), "share_one": trial.share_of(1.0)}
        context["all_same"] = len(trial.graded) > 2 and len(set(trial.graded)) == 1
    return render(request, "graders/grader_set.html", context)


def _is_asked(request: TeamRequest, editor: Editor) -> bool:
    """Whether to run now: always when it costs nothing, else only for a POST by someone who may spend on it."""
    if not is_costly(editor.config):
        return True
    if request.method != "POST":
        return False
    check_can(request.actor, Permission.GRADER_EDIT, team=editor.grader.team)
    return True


def _samples(editor: Editor, source: str, size: int) -> list[StoredSample]:
    team, version = editor.grader.team, editor.choice.version
    if editor.choice.is_examples:
        return example_samples(editor.grader.started_from)
    if source == "rollouts":
        return stored_samples(team=team, version=version, limit=size)
    if version is None:
        return []
    name = source.removeprefix("field:") if source.startswith("field:") else ""
    return list(field_samples(team=team, version=version, source=name, limit=size))


def _rows(trial: SetTrial) -> list[dict[str, Any]]:
    """Ungraded samples first, then those that moved most against the published version, then from the lowest reward up."""
    before = trial.before or [None] * len(trial.rewards)
    rows = [
        {"stored": stored, "grade": grade, "before": old}
        for stored, grade, old in zip(trial.samples, trial.grades, before, strict=True)
    ]
    for row in rows:
        now, old = row["grade"].reward, row["before"]
        row["change"] = None if now is None or old is None else now - old
    return sorted(rows, key=_by_interest)[:100]


def _by_interest(row: dict[str, Any]) -> tuple[bool, float, float]:
    return row["grade"].reward is not None, -abs(row["change"] or 0.0), row["grade"].reward or 0.0


def _figure(trial: SetTrial, editor: Editor) -> dict[str, Any] | None:
    number = editor.newest.number if editor.newest else None
    return reward_histogram(trial.rewards, trial.before, number=number, pass_mark=_pass_mark(editor))


@team_view
@require_http_methods(["GET", "POST"])
def grader_gaming(request: TeamRequest, public_id: str) -> HttpResponse:
    """Cheap tricks on some items of the chosen dataset."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    editor = editor_of(grader, grader.draft, dataset=(request.POST or request.GET).get("dataset", ""))
    context = editor_context(request, editor, "gaming")
    costly = is_costly(editor.config)
    context["asks_first"] = not _is_asked(request, editor)
    if editor.is_valid and editor.choice.version and not context["asks_first"]:
        count = GAMING_ITEMS_COSTLY if costly else GAMING_ITEMS
        rows = [item_at(team=grader.team, version=editor.choice.version, position=n) for n in range(count)]
        items = list({row.key: (row.key, row.data) for row in rows if row}.values())
        with draft_compiled(team=grader.team, config=editor.config) as compiled:
            context["results"] = gaming_results(compiled, items, pass_mark=_pass_mark(editor))
        context["item_count"] = len(items)
    return render(request, "graders/grader_gaming.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def grader_agreement(request: TeamRequest, public_id: str) -> HttpResponse:
    """The draft against what people said about the same rollouts, or about their items."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    data = request.POST or request.GET
    editor = editor_of(grader, grader.draft, dataset=data.get("dataset", ""))
    context = editor_context(request, editor, "agreement")
    asked = questions(team=grader.team, version=editor.choice.version)
    question = next((one for one in asked if one.id == data.get("question")), asked[0] if asked else None)
    good = [option for option in data.getlist("good") if question and option in question.options]
    context |= {"questions": asked, "question": question, "good": good or (question.likely_good if question else [])}
    if question:
        labelled = labelled_samples(team=grader.team, version=editor.choice.version, question=question, good=good)
        context["label_count"] = len(labelled)
        if editor.is_valid and labelled and _is_asked(request, editor):
            context |= _agreement(request, editor, labelled)
    return render(request, "graders/grader_agreement.html", context)


def _agreement(request: TeamRequest, editor: Editor, labelled: list[StoredSample]) -> dict[str, Any]:
    trial = set_run(actor=request.actor, team=editor.grader.team, config=editor.config, samples=labelled)
    graded = {
        stored.id: (stored, grade)
        for stored, grade in zip(trial.samples, trial.grades, strict=True)
        if grade.reward is not None and stored.label is not None
    }
    pairs = [
        Pair(key, grade.reward, stored.label, len(stored.sample.output_text)) for key, (stored, grade) in graded.items()
    ]
    found = calibrate(pairs, pass_mark=_pass_mark(editor))
    rows = [{"pair": pair, "stored": graded[pair.id][0], "grade": graded[pair.id][1]} for pair in
            (found.disagreements[:DISAGREEMENTS] if found else [])]  # fmt: skip
    points = [(pair.label, pair.reward, graded[pair.id][0].url) for pair in pairs]
    return {
        "calibration": found,
        "trial": trial,
        "disagreements": rows,
        "confusion": _confusion(found),
        "figure": agreement_scatter(points, pass_mark=_pass_mark(editor)),
    }


def _confusion(found: Calibration | None) -> list[dict[str, Any]]:
    """Rows of the table: what the grader says, against what people say."""
    if found is None:
        return []
    return [
        {"said": said, "passes": found.confusion[ours, True], "fails": found.confusion[ours, False], "ours": ours}
        for ours, said in ((True, "Grader passes"), (False, "Grader does not"))
    ]


def _pass_mark(editor: Editor) -> float:
    mark = editor.config.get("pass_threshold")
    return 0.5 if mark is None else float(mark)
