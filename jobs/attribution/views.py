"""The rollout page with its credit, marks on steps, and the page that says how methods are tested."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET, require_POST

from jobs.attribution import charts, judge, knowledge, page, rerun, selectors, services, summary
from jobs.attribution.catalogue import ALL
from jobs.attribution.methods.registry import METHODS
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.attribution.orders import ORDERED, credit_orders, is_running
from jobs.attribution.reliability import bench_results, claim_rows, judge_reliability, reliability_of
from jobs.rollouts import drawings
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.reading import WINDOW, Reading, prompt_of, rollout_reading, step_views, steps_of
from rftstudio.core.errors import NotFound
from rftstudio.teams.permissions import Permission, can
from rftstudio.teams.views_helpers import TeamRequest, redirect_to, team_view

#: Larger batches are credited after the cards are on the screen.
INLINE_ROLLOUTS = 600


@team_view
@require_GET
def rollout_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    context = walk_context(request, reading)
    if request.htmx and request.htmx.target == "walk":
        if "wait" in request.GET and not context["is_ordered"]:  # it is there: tabs and facts are new as well
            return HttpResponse(headers={"HX-Refresh": "true"})
        request.GET = request.GET.copy()  # its links do not ask to wait or to compute again
        for name in ("wait", "compute"):
            request.GET.pop(name, None)
        return render(request, "attribution/_walk.html", context)
    context |= head_context(request, reading, context["beside"], context["walk"].failed)
    return render(request, "attribution/rollout_detail.html", context)


def walk_context(request: TeamRequest, reading: Reading) -> dict[str, Any]:
    """Feeds the three columns, on the page and alone."""
    rollout, siblings = reading.rollout, reading.siblings
    selected = _number(request.GET.get("step"), -1)
    first = (max(selected, 1) - 1) // WINDOW * WINDOW + 1
    start = max(0, _number(request.GET.get("from"), first) - 1)
    steps = steps_of(rollout, start=start)
    has = selectors.stored_marks(rollout)
    method = _method(request, reading)
    why_none = page.why_no_credit(reading, method, has)
    stored = selectors.credits_of(rollout)
    credits, is_waiting = _credits(request, reading, method, has, stored) if not why_none else ({}, False)
    compared = siblings.everyone
    if sum(r.n_steps for r in compared) > selectors.COMPARED_STEPS:
        compared = [rollout, *siblings.others[:1]]
    keys = selectors.action_keys_of(compared)
    mine = keys[rollout.pk]
    beside, words, following = _beside(request, reading, mine, keys)
    sides: Sequence[page.Side] = ()
    if beside is not None:
        if beside.pk not in keys:
            keys |= selectors.action_keys_of([beside])
        sides = page.sides_for(mine, keys[beside.pk], beside, _sentences(beside, reading, start, len(steps)))
    marks = selectors.marks_of(rollout)
    own = {mark.step_index: mark.mark for mark in marks if mark.user_id == request.user.pk}
    walk = page.build_walk(
        reading=reading, steps=steps, mine=mine, credit=credits.get(method), method=method, start=start,
        selected=None if selected < 0 else selected, sides=sides, marks=own,
        failed=selectors.failed_steps(rollout),
    )  # fmt: skip
    for row in walk.rows:
        if isinstance(row, page.StepRow) and row.is_selected and row.credit is not None:
            row.why = page.why_this_much(
                reading=reading, index=row.view.index, mine=mine, keys=keys, credits=credits, method=method
            )
            row.why.people = [(str(m.user), m.get_mark_display()) for m in marks if m.step_index == row.view.index]
    return {
        "reading": reading, "rollout": rollout, "walk": walk, "method": ALL[method], "why_none": why_none,
        "is_waiting": is_waiting, "is_ordered": method in ORDERED and is_running(method, rollout, stored.get(method)), "beside": beside, "beside_words": words, "next_beside": following,
        "can_label": can(request.actor, Permission.LABEL), "marks": StepMark.Mark,
        "next_from": walk.last + 1 if walk.last < walk.total else None,
        "windows": _windows(walk) if walk.total > WINDOW else [],
        "next_count": min(WINDOW, walk.total - walk.last),
        "previous_from": max(1, walk.first - WINDOW) if walk.first > 1 else None,
    }  # fmt: skip


def _windows(walk: page.Walk) -> list[dict[str, Any]]:
    """Places to jump to in a long rollout."""
    return [
        {"first": first, "last": min(walk.total, first + WINDOW - 1), "is_current": first == walk.first}
        for first in range(1, walk.total + 1, WINDOW)
    ]


def head_context(
    request: TeamRequest, reading: Reading, beside: Rollout | None, failed: Sequence[int]
) -> dict[str, Any]:
    """Feeds the strip of facts and the method tabs."""
    siblings = reading.siblings
    credits = selectors.credits_of(reading.rollout)
    current = _method(request, reading)
    orders = credit_orders(request, reading, credits)
    has = selectors.stored_marks(reading.rollout)
    live = {key: order["note"] for key, order in orders.items() if order["note"]}
    judged = credits.get(judge.METHOD)
    trust = judge_reliability(judge.calibration_of(request.actor.team, str(judged.detail["model"]))) if judged else None
    tabs = page.method_tabs(len(siblings.graded) + 1, current, credits, has, live, trust)
    ready = [tab for tab in tabs if tab.is_ready]
    place = next((index for index, tab in enumerate(ready) if tab.is_current), -1)

    def url_of(other: Rollout) -> str:
        return (
            reverse("rollouts:rollout-detail", args=[request.actor.team.slug, other.public_id]) + f"?credit={current}"
        )

    rollout, baseline = reading.rollout, siblings.baseline
    return {
        "may_edit": can(request.actor, Permission.DATASET_EDIT),
        "advantage": None if rollout.reward is None or baseline is None else rollout.reward - baseline,
        "prompt": prompt_of(rollout),
        "again": orders["rerun"],
        "orders": orders,
        "failed_step": failed[0] + 1 if failed else None,
        "tokens": rollout.input_tokens + rollout.output_tokens,
        "tabs": tabs,
        "tabs_off": [tab for tab in tabs if not tab.is_ready and not tab.is_current],
        "tab": next(tab for tab in tabs if tab.is_current),
        "next_method": ready[(place + 1) % len(ready)].key,
        "group_line": mark_safe(drawings.group_line(reading, url_of, beside)),  # noqa: S308 numbers and escaped urls
        "previous": siblings.beside(-1),
        "following": siblings.beside(1),
    }


def _method(request: TeamRequest, reading: Reading) -> str:
    asked = request.GET.get("credit", "")
    if asked in METHODS or asked in page.LIVE:
        return asked
    graded = reading.rollout.batch.rollouts.filter(reward__isnull=False)[: page.ENOUGH_TO_LEARN].count()
    return page.DEFAULT if graded >= page.ENOUGH_TO_LEARN else "divergence"


def _credits(
    request: TeamRequest,
    reading: Reading,
    method: str,
    has: Mapping[str, bool],
    stored: Mapping[str, RolloutCredit],
) -> tuple[dict[str, RolloutCredit], bool]:
    """Credits by method, the chosen one computed now unless that would keep the page waiting."""
    rollout, everyone = reading.rollout, reading.siblings.everyone
    found = {key: credit for key, credit in stored.items() if services.is_fresh(credit, everyone)}
    is_now = "compute" in request.GET
    is_long = sum(other.n_steps for other in everyone) > selectors.COMPARED_STEPS
    for key in services.GROUP_ONLY:
        if key not in found and has.get(key, True) and (not is_long or (is_now and key == method)):
            credit = services.attribution_ensure(rollout=rollout, siblings=everyone, method=key)
            found |= {key: credit} if credit else {}
    if rerun.METHOD not in found and (settled := rerun.rerun_settle(rollout=rollout, siblings=everyone)):
        found[rerun.METHOD] = settled
    if judge.METHOD in stored:
        judged = judge.judge_settle(rollout=rollout, siblings=reading.siblings)  # by the calibration as it stands now
        found = {key: row for key, row in found.items() if key != judge.METHOD} | (
            {judge.METHOD: judged} if judged else {}
        )
    if method in found or method in page.LIVE:
        return found, False
    if not is_now and (is_long or rollout.batch.rollouts.count() > INLINE_ROLLOUTS):
        return found, True
    credit = services.attribution_ensure(rollout=rollout, siblings=everyone, method=method)
    return (found | {method: credit} if credit else found), False


def _beside(request: TeamRequest, reading: Reading, mine: list[str], keys: dict[int, list[str]]):
    """The sibling beside this rollout, what it is in words, and the one after it in the cycle of the C key."""
    cycle = page.sibling_cycle(reading, mine, keys)
    if not cycle:
        return None, "", None
    asked = request.GET.get("beside", "")
    place = next(
        (i for i, (other, _) in enumerate(cycle) if asked in (other.public_id, str(other.sample_index + 1))), 0
    )
    return *cycle[place], cycle[(place + 1) % len(cycle)][0]


def _sentences(beside: Rollout, reading: Reading, start: int, count: int) -> dict[int, Any]:
    """The sibling's steps around the window, as sentences."""
    steps = steps_of(beside, start=max(0, start - 20), count=count + 60)
    views = step_views(steps, reading.words, last_index=beside.n_steps - 1)
    return {view.index: view.sentence for view in views}


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else otherwise


@team_view
@require_POST
def step_mark(request: TeamRequest, public_id: str, step: int) -> HttpResponse:
    """A person's mark on a step, then back to the step."""
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    text = request.POST.get("mark", "")
    services.step_mark_set(
        actor=request.actor,
        rollout=reading.rollout,
        step_index=step - 1,
        mark=int(text) if text in {"-1", "0", "1"} else None,
    )
    if request.htmx:
        request.GET = request.GET.copy()
        request.GET["step"] = str(step)
        return render(request, "attribution/_walk.html", walk_context(request, reading))
    query = request.GET.copy()
    query["step"] = str(step)
    url = reverse("rollouts:rollout-detail", args=[request.actor.team.slug, public_id])
    return redirect_to(request, f"{url}?{query.urlencode()}#step-{step}")


@team_view
@require_POST
def rerun_start(request: TeamRequest, public_id: str) -> HttpResponse:
    """Order continuations of every prefix of a rollout."""
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    batch = rerun.rerun_start(actor=request.actor, rollout=reading.rollout)
    messages.success(
        request, f"{batch.rollouts.count()} rollouts are queued; their credit appears under Re-run from here."
    )
    return redirect_to(request, reverse("rollouts:rollout-detail", args=[request.actor.team.slug, public_id]))


@team_view
@require_POST
def judge_start(request: TeamRequest, public_id: str) -> HttpResponse:
    """Have a judge model mark the steps."""
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    asked = request.POST.get("model") or request.GET.get("model")
    model = next((m for m in judge.judges(request.actor.team) if m.public_id == asked), None)
    if model is None:
        raise NotFound("The team has no such model.")
    judge.judge_start(actor=request.actor, rollout=reading.rollout, model=model)
    messages.success(request, f"{model.name} is reading the steps. The page shows its marks when it is done.")
    url = reverse("rollouts:rollout-detail", args=[request.actor.team.slug, public_id])
    return redirect_to(request, f"{url}?credit={judge.METHOD}")


@team_view
@require_POST
def knowledge_read(request: TeamRequest, public_id: str) -> HttpResponse:
    """Read off the policy how likely it found the reference answer after each step."""
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    knowledge.knowledge_ask(actor=request.actor, rollout=reading.rollout)
    messages.success(request, "The policy is being read. The page shows it when that is done.")
    url = reverse("rollouts:rollout-detail", args=[request.actor.team.slug, public_id])
    return redirect_to(request, f"{url}?credit=information_gain")


@team_view
@require_GET
def source_credit(request: TeamRequest, source: str) -> HttpResponse:
    """Credit over all rollouts of a job or an evaluation, as a page or, for other pages, as a panel."""
    team = request.actor.team
    if not RolloutBatch.objects.filter(team=team, source=source).exists():
        raise NotFound("There is nothing at this address.")
    method = request.GET.get("credit", "")
    method = method if method in ALL else page.DEFAULT
    found = summary.credit_summary(team=team, source=source, method=method)
    context = {
        "summary": found,
        "source": source,
        "method": ALL[method],
        "methods": list(ALL.values()),
        "figure": charts.credit_over_time(found.over_time),
        "table": charts.over_time_table(found.over_time),
        "can_compute": can(request.actor, Permission.EVALUATION_RUN),
        "agreement": [(ALL[key].name, value, steps) for key, value, steps in found.agreement if key in ALL],
    }
    name = "_source_panel" if request.htmx else "source_credit"
    return render(request, f"attribution/{name}.html", context)


@team_view
@require_POST
def source_compute(request: TeamRequest, source: str) -> HttpResponse:
    """Have every batch of a source credited in the background."""
    services.source_credit(actor=request.actor, source=source)
    messages.success(request, "The credit is being computed; reload in a moment.")
    return redirect_to(request, reverse("attribution:source-credit", args=[request.actor.team.slug, source]))


@team_view
@require_GET
def method_list(request: TeamRequest) -> HttpResponse:
    """How each method works, what it assumes and how often it was right on worlds with a known answer."""
    cards = [
        {"method": method, "rows": claim_rows(key), "known": reliability_of(key, 8)} for key, method in ALL.items()
    ]
    return render(request, "attribution/method_list.html", {"cards": cards, "bench": bench_results()})
