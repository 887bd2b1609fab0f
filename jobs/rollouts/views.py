"""The browser's door to rollouts: the list, its drawer, whole results, exports. The rollout page itself is drawn by
the attribution room, one floor up."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET

from jobs.rollouts import drawings, explorer, exports, filter_menu, search
from jobs.rollouts import filters as filtering
from jobs.rollouts.models import SavedView
from jobs.rollouts.reading import result_text, rollout_reading, step_views, steps_of
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, can
from rftstudio.teams.views_helpers import TeamRequest, team_view

#: Characters of a long result on one page.
RESULT_PAGE = 400_000
#: Steps shown in the drawer.
PEEK_STEPS = 12


@team_view
@require_GET
def rollout_list(request: TeamRequest) -> HttpResponse:
    if (tidy := filter_menu.tidied(request.GET)) is not None:
        return redirect(f"{request.path}?{tidy.urlencode()}" if tidy else request.path)
    team = request.actor.team
    filters = filtering.filters_from(request.GET)
    by_item = request.GET.get("by") != "rollout"
    cursor = {name: _cursor(request.GET.get(name)) for name in ("after", "before")}
    find = explorer.group_page if by_item else explorer.rollout_page
    page = find(team=team, filters=filters, **cursor)
    counted = explorer.counted(team=team, filters=filters)
    for group in page.groups:
        group.dots = _dots(team.slug, group)
    shown = [row.rollout for row in page.rows] + [row.rollout for group in page.groups for row in group.rows]
    tools = explorer.tool_names(shown)
    context = {
        "filters": filters,
        "menu": filter_menu.menu(filters, request.GET, tools, shown),
        "chips": [chip | {"url": _without(request, chip["name"])} for chip in filtering.chips(filters, request.GET)],
        "page": page,
        "by_item": by_item,
        "counted": counted,
        "tools": tools,
        "views": _views(request),
        "kept": SavedView.objects.filter(team=team, query=_search(request)).first(),
        "can_keep": can(request.actor, Permission.LABEL),
        "can_import": can(request.actor, Permission.EVALUATION_RUN),
        "query": request.GET.urlencode(),
        "stopped_search": _is_cut(team, filters, counted),
        "is_new": filters.is_empty and not shown,
        "may_edit": can(request.actor, Permission.DATASET_EDIT),
        **_GROUP_ROWS,
    }
    if not context["is_new"] and "charts" in request.GET:  # for readers without a script
        context["histograms"] = _histograms(request, filters)
    return render(request, "rollouts/rollout_list.html", context)


def _is_cut(team: Team, filters: filtering.Filters, counted: explorer.Counted) -> bool:
    """Whether the text has more matches than a search looks at."""
    if not filters.q or filtering.is_id(filters.q):
        return False
    if counted.is_more or filters.active() == ["q"]:  # then the matches themselves were counted, as far
        return counted.is_more
    return search.count(team.pk, filters.q, search.MOST + 1) > search.MOST


@team_view
@require_GET
def rollout_histograms(request: TeamRequest) -> HttpResponse:
    """The distributions of the present search: they look at many rows, so they come after the list."""
    histograms = _histograms(request, filtering.filters_from(request.GET))
    return render(request, "rollouts/_histograms.html", {"histograms": histograms})


_GROUP_ROWS = {
    "group_rows": explorer.GROUP_ROWS,
    "group_rows_slice": f":{explorer.GROUP_ROWS}",
    "group_rows_minus": -explorer.GROUP_ROWS,
}


@team_view
@require_GET
def rollout_group(request: TeamRequest, anchor: int) -> HttpResponse:
    """One group of the list, opened or folded in place."""
    team = request.actor.team
    group = explorer.group_get(team=team, filters=filtering.filters_from(request.GET), anchor=anchor)
    group.dots = _dots(team.slug, group)
    context = {
        "group": group,
        "is_open": request.GET.get("open") != "0",
        "tools": explorer.tool_names([row.rollout for row in group.rows]),
        **_GROUP_ROWS,
    }
    return render(request, "rollouts/_group.html", context)


def _dots(slug: str, group: explorer.Group) -> list[dict[str, Any]]:
    return [
        {
            "reward": row.rollout.reward,
            "passed": row.rollout.passed,
            "label": f"Rollout {row.rollout.sample_index + 1}",
            "url": reverse("rollouts:rollout-detail", args=[slug, row.rollout.public_id]),
        }
        for row in group.rows
    ]


def _histograms(request: TeamRequest, filters: filtering.Filters) -> list[dict[str, Any]]:
    made = []
    for name, title, find in (
        ("reward", "Reward", explorer.reward_histogram),
        ("steps", "Steps", explorer.step_histogram),
        ("train_step", "Train step", explorer.train_step_histogram),
    ):
        data = find(team=request.actor.team, filters=filters)
        if data.bars and (name != "train_step" or len(data.bars) > 1):
            tone = "c1" if name == "reward" else "ink-3"
            drawing = drawings.histogram(data, lambda ends, n=name: _with(request, n, ends), name=title, tone=tone)
            chosen = getattr(filters, name)
            made.append(
                {
                    "name": name,
                    "title": title,
                    "drawing": mark_safe(drawing),  # noqa: S308 numbers and escaped urls
                    "data": data,
                    "low": filtering.show_number(chosen[0]) if chosen else "",
                    "high": filtering.show_number(chosen[1]) if chosen else "",
                }
            )
    return made


def _with(request: TeamRequest, name: str, value: str) -> str:
    query = request.GET.copy()
    for other in ("after", "before", "peek"):
        query.pop(other, None)
    query[name] = value
    return f"{list_url(request.actor.team.slug)}?{query.urlencode()}"


def _without(request: TeamRequest, name: str) -> str:
    query = request.GET.copy()
    for other in (name, "after", "before", "peek"):
        query.pop(other, None)
    return f"?{query.urlencode()}" if query else request.path


def _views(request: TeamRequest) -> list[dict[str, Any]]:
    """Ready-made searches; the last one is whatever is in the address now."""
    made = [
        ("All rollouts", ""),
        ("Ungraded", "graded=0&by=rollout"),
        ("Passed without a tool", "passed=1&calls=0&by=rollout"),
        ("With an error", "error=1&by=rollout"),
    ]
    present = {k: v for k, v in request.GET.items() if k not in ("after", "before", "peek")}
    kept = SavedView.objects.filter(team=request.actor.team).order_by("name")
    made += [(view.name, view.query) for view in kept]
    tabs = []
    for label, query in made:
        wanted = dict(parse_qsl(query))
        url = f"{request.path}?{query}" if query else request.path
        tabs.append({"label": label, "url": url, "is_current": present == wanted})
    if not any(tab["is_current"] for tab in tabs):
        tabs.insert(0, {"label": "This search", "url": request.get_full_path(), "is_current": True})
    return tabs


def _search(request: TeamRequest) -> str:
    """The present search as a kept view has it."""
    return urlencode([(k, v) for k, v in request.GET.items() if k not in filtering.OTHER_PARAMETERS - {"by"}])


def _cursor(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


@team_view
@require_GET
def rollout_peek(request: TeamRequest, public_id: str) -> HttpResponse:
    """The drawer: reward and steps in sentences, without leaving the list."""
    reading = rollout_reading(team=request.actor.team, public_id=public_id)
    steps = steps_of(reading.rollout, count=PEEK_STEPS)
    views = step_views(steps, reading.words, last_index=reading.rollout.n_steps - 1)
    more = max(0, reading.rollout.n_steps - len(views))
    return render(request, "rollouts/_peek.html", {"reading": reading, "steps": views, "more": more})


@team_view
@require_GET
def step_result(request: TeamRequest, public_id: str, step: int, call: int) -> HttpResponse:
    """A whole tool result: in place for htmx, as plain text otherwise; very long ones page by page."""
    if step < 1 or call < 1:
        raise NotFound("There is nothing at this address.")
    text = result_text(team=request.actor.team, public_id=public_id, step=step - 1, call=call - 1)
    start = _cursor(request.GET.get("from")) or 0
    if request.htmx:
        part = text[start : start + RESULT_PAGE]
        more = start + RESULT_PAGE if start + RESULT_PAGE < len(text) else None
        return render(
            request,
            "rollouts/_result.html",
            {"text": part, "more": more, "size": len(text), "public_id": public_id, "step": step, "call": call},
        )
    return HttpResponse(text.encode("utf-8", "replace"), content_type="text/plain; charset=utf-8")


@team_view
@require_GET
def rollout_export(request: TeamRequest) -> StreamingHttpResponse:
    """The rollouts of the present search as a file."""
    filters = filtering.filters_from(request.GET)
    form = request.GET.get("format", "jsonl")
    if form not in exports.FORMATS:
        raise NotFound(f"There is no export format named {form}.")
    rows = filtering.rows(team=request.actor.team, filters=filters)
    kind = exports.FORMATS[form]
    answer = StreamingHttpResponse(kind.write(rows), content_type=kind.content_type)
    answer["Content-Disposition"] = f'attachment; filename="rollouts.{kind.ending}"'
    return answer


def list_url(team_slug: str) -> str:
    return reverse("rollouts:rollout-list", args=[team_slug])
