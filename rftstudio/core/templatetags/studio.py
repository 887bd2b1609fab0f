"""`{% load studio %}`: icons, glyphs, small drawings, and the filters that show numbers and times."""

import json
from typing import Any

from django import template
from django.forms import BoundField
from django.utils import timezone
from django.utils.html import escape, format_html, json_script
from django.utils.safestring import SafeString, mark_safe

from rftstudio.core import drawings, json_tree, show
from rftstudio.core.icons import GLYPHS, ICONS
from rftstudio.core.looks import Look, look_of

register = template.Library()

register.filter("reward", show.show_reward)
register.filter("signed", show.show_signed)
register.filter("count", show.show_count)
register.filter("percent", show.show_percent)
register.filter("ms", show.show_ms)
register.filter("seconds", show.show_seconds)
register.filter("filesize", show.show_bytes)
register.filter("usd", show.show_money)
register.filter("spaced", show.show_spaced)
register.filter("deed", show.show_deed)
register.filter("details", show.show_details)


@register.filter
def when(value: Any) -> str:
    """`<time>` with a short text and the exact moment in its title."""
    return _time(value, show.show_when)


@register.filter
def ago(value: Any) -> str:
    return _time(value, show.show_ago)


def _time(value: Any, words: Any) -> str:
    if not value:
        return show.NONE
    local = timezone.localtime(value)
    exact = f"{local:%A} {local.day} {local:%B %Y, %H:%M:%S} {local.tzname()}"
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), exact, words(value))


@register.filter
def tone_of(value: Any) -> str:
    """tone-plus, tone-minus or nothing, for signed numbers."""
    number = show._number(value)
    if not number or abs(number) < 0.005:
        return ""
    return "tone-plus" if number > 0 else "tone-minus"


@register.filter
def initials(value: Any) -> str:
    words = str(value).replace("@", " ").replace(".", " ").replace("-", " ").split()
    return "".join(word[0] for word in words[:2]).upper() if words else "?"


@register.filter
def pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def get(mapping: Any, key: Any) -> Any:
    """A value by a key that is itself a variable."""
    try:
        return mapping.get(key)
    except AttributeError:
        return None


@register.simple_tag
def icon(name: str, size: int = 16, label: str = "") -> SafeString:
    """A line icon: `{% icon "search" %}`; with `label` it is read out, else it is decoration."""
    css = "icon" if size == 16 else f"icon icon--{size}"
    return _svg(css, ICONS.get(name) or ICONS["tool"], label)


@register.simple_tag
def glyph(status: str, label: str = "") -> SafeString:
    """The glyph of a status or of a glyph name, in its tone."""
    look = look_of(status)
    name = status if status in GLYPHS and status not in ("running", "queued") else look.glyph
    tone = look.tone if look.meaning else "idle"
    return _svg(f"glyph glyph--{name} tone-{tone}", GLYPHS[name], label)


def _svg(css: str, body: str, label: str) -> SafeString:
    name = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return mark_safe(f'<svg class="{css}" viewBox="0 0 16 16" {name}>{body}</svg>')  # noqa: S308 our own drawings


@register.simple_tag
def status_look(status: Any) -> Look:
    return look_of(str(status))


@register.simple_tag
def bar(share: Any, tone: str = "c1", label: str = "") -> SafeString:
    return mark_safe(drawings.bar(show._number(share), tone, label))  # noqa: S308 numbers and escaped words


@register.simple_tag
def stacked_bar(total: Any, *amounts_and_tones: Any) -> SafeString:
    """`{% stacked_bar total spent "ink-2" held "ink-3" %}`."""
    amounts = [show._number(amount) or 0.0 for amount in amounts_and_tones[::2]]
    parts = list(zip(amounts, amounts_and_tones[1::2], strict=True))
    return mark_safe(drawings.stacked_bar(parts, show._number(total) or 0.0))  # noqa: S308


@register.simple_tag
def rollout_strip(
    dots: Any, mean: float | None = None, low: float = 0.0, high: float = 1.0, width: int = 150
) -> SafeString:
    return mark_safe(drawings.rollout_strip(dots, mean=mean, low=low, high=high, width=width))  # noqa: S308


@register.simple_tag
def range_strip(low: float, likely: float, high: float, words: Any, dots: Any = ()) -> SafeString:
    return mark_safe(drawings.range_strip(low, likely, high, words=words, dots=dots))  # noqa: S308


@register.simple_tag
def step_ribbon(path: str, tools: Any = (), part_after: int | None = None, failed: Any = ()) -> SafeString:
    return mark_safe(drawings.step_ribbon(path, tools=tools, part_after=part_after, failed=failed))  # noqa: S308


@register.simple_tag
def tool_swatch(name: str, tools: Any = ()) -> SafeString:
    return mark_safe(drawings.tool_swatch(name, list(tools)))  # noqa: S308


@register.simple_tag
def spark(values: Any, label: str = "", width: int = 72) -> SafeString:
    return mark_safe(drawings.spark(list(values), label=label, width=width))  # noqa: S308


@register.simple_tag
def json_tree_of(value: Any) -> SafeString:
    return mark_safe(json_tree.tree(value))  # noqa: S308 every leaf is escaped


@register.simple_tag
def chart_data(element_id: str, figure: dict) -> SafeString:
    """The figure as inert JSON beside its box; charts.js finds it by the id."""
    return json_script(figure, f"{element_id}-figure")


@register.filter
def is_too_large(value: Any) -> bool:
    return json_tree.too_large(value)


@register.simple_tag
def key_hints(*keys_and_words: str) -> SafeString:
    """`{% key_hints "J K" "line" "Enter" "open" %}` → the hints of the key bar."""
    spans = []
    for keys, words in zip(keys_and_words[::2], keys_and_words[1::2], strict=True):
        caps = "".join(f"<kbd>{escape(key)}</kbd>" for key in keys.split())
        spans.append(f"<span>{caps} {escape(words)}</span>")
    return mark_safe("".join(spans))  # noqa: S308 escaped above


@register.filter
def is_choice(field: BoundField) -> bool:
    """A single checkbox: its label stands beside it."""
    return getattr(field.field.widget, "input_type", "") == "checkbox" and not field.use_fieldset


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The present query string with changes; None or "" removes: `href="{% query page=None sort="-reward" %}"`."""
    request = context.get("request")
    params = request.GET.copy() if request else {}
    for key, value in changes.items():
        if value in (None, ""):
            params.pop(key, None)
        else:
            params[key] = value
    text = params.urlencode() if params else ""
    return f"?{text}" if text else "?"
