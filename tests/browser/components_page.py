"""A page with every component, only for tests: each look in both themes, under the real content policy."""

import math
from pathlib import Path

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import include, path
from django.utils import timezone

from rftstudio.core.charts import axis, figure, hline, merge_layout, note, token
from rftstudio.teams.views_helpers import team_view

TEMPLATE = Path(__file__).with_name("components.html")
TOOLS = ["lookup", "calc", "search", "read", "compute", "rank"]
STATUSES = [
    "succeeded", "running", "queued", "paused", "warning", "failed", "cancelled", "draft", "ungraded", "frozen", "held",
]  # fmt: skip


class PartsForm(forms.Form):
    pass_mark = forms.FloatField(help_text="A rollout passes at this reward or above.")
    agrees = forms.BooleanField(label="Note the warnings on the job")
    split = forms.ChoiceField(choices=[("train", "train"), ("test", "test")], widget=forms.RadioSelect)
    note = forms.CharField(widget=forms.Textarea, required=False)


def line_figure() -> dict:
    steps = list(range(24))
    train = [0.46 + 0.2 * (1 - math.exp(-n / 9)) + 0.03 * math.sin(n * 1.7) for n in steps]
    urls = [f"/t/duty-desk/members/?train_step={n}" for n in steps]
    return figure(
        [
            {"type": "scatter", "mode": "lines", "x": steps, "y": train, "name": "train", "customdata": urls,
             "line": {"color": token("c1"), "width": 1.75}},
            {"type": "scatter", "mode": "lines+markers", "x": steps[::5], "y": train[::5], "name": "validation",
             "line": {"color": token("c2")}, "marker": {"symbol": "diamond", "size": 9}, "customdata": urls[::5]},
        ],
        merge_layout(
            {"yaxis": axis("mean reward"), "xaxis": axis("train step", showgrid=False, showline=True)},
            hline(0.46, "baseline 0.46"),
            {"annotations": [note("train 0.66", x=23, y=train[-1], bold=True, xanchor="right", yanchor="bottom")]},
        ),
        label="Train reward rises from 0.46 to 0.66 in 23 train steps",
    )  # fmt: skip


def area_figure() -> dict:
    steps = list(range(24))
    return figure(
        [
            {"type": "scatter", "x": steps, "y": [3 - k * 0.4 - n * 0.03 for n in steps], "name": name,
             "stackgroup": "all", "line": {"width": 1, "color": token("surface")}, "fillcolor": token(f"c{k + 1}")}
            for k, name in enumerate(TOOLS)
        ],
        label="Tool calls per rollout fall from 12 to 8",
    )  # fmt: skip


def row(n: int) -> dict:
    rewards = [0.1 * n, 0.22, 0.4, 0.6, 0.66, 0.88, 0.92, None]
    return {
        "title": f"Goods stored in Poland, case {n}",
        "dots": [{"reward": r, "passed": (r or 0) > 0.75, "label": f"rollout, {r}", "is_self": r == 0.6} for r in rewards],
        "mean": 0.5 + n / 20,
        "advantage": (n - 3) / 7,
        "path": "lookup>search>read+rank>compute>calc>answer",
        "failed": [3] if n == 2 else [],
        "tokens": 11420 + n,
    }  # fmt: skip


@team_view
def parts(request: HttpRequest) -> HttpResponse:
    form = PartsForm({"pass_mark": "high", "note": "as before"})
    context = {
        "figures": [
            {"label": "Mean reward", "value": "0.46", "note": "±0.03", "url": "#"},
            {"label": "Pass rate", "value": "38 %", "note": "pass mark 0.75"},
            {"label": "Pass@8", "value": "71 %", "note": "any of 8; room: 33 points"},
            {"label": "Items with signal", "value": "57 %", "note": "68 of 120"},
            {"label": "Ungraded", "value": "2.1 %", "note": "20 of 960, not counted as 0"},
            {"label": "Cost", "value": "$14.20", "note": "$0.015 a rollout"},
        ],
        "tabs": [
            {"label": "This search", "url": "?", "is_current": True},
            {"label": "Ungraded", "url": "?", "count": 56},
            {"label": "Problems", "url": "?", "problems": 3},
        ],
        "statuses": STATUSES,
        "line": line_figure(),
        "area": area_figure(),
        "table": {"head": ["Train step", "Reward"], "rows": [[1, "0.46"], [2, None]]},
        "tools": TOOLS,
        "rows": [row(n) for n in range(6)],
        "call": {"type": "multi", "name": "<b>&", "n": 3, "graders": {str(k): [k, None, True] for k in range(7)}, "e": {}},
        "remedies": [{"label": "Raise the limit to 20 s", "url": "#"}],
        "moment": timezone.now(),
        "values": [0.4, 0.5, None, 0.55, 0.7],
        "form": form,
    }  # fmt: skip
    return HttpResponse(engines["django"].from_string(TEMPLATE.read_text()).render(context, request))


@team_view
def drawer(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>What the drawer shows.</p>")


@team_view
def broken(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>no</p>", status=500)


urlpatterns = [
    path("t/<slug:team>/parts/", parts),
    path("t/<slug:team>/parts/drawer/", drawer),
    path("t/<slug:team>/parts/broken/", broken),
    path("", include("rftstudio.urls")),
]
