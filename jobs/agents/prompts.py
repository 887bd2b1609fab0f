"""Fills an agent's prompt from an item. Portable."""

import re
from functools import lru_cache
from typing import Any

from graders.failures import Ungraded
from graders.templating import Template, TemplateError
from graders.types import Sample

#: Only these are templates in a prompt; other braces, as in an example of JSON, are text.
_FIELD = re.compile(r"\{\{\s*item\b[^{}]*\}\}")
_NO_SAMPLE = Sample()


class PromptError(Exception):
    """The system prompt names a field that this item has not, or names it in a way that cannot be read."""


def fill_prompt(prompt: str, item: dict[str, Any]) -> str:
    """The prompt with `{{ item.field }}` replaced, as graders fill theirs: texts as they are, anything else as JSON."""

    def filled(found: re.Match[str]) -> str:
        try:
            return _template(found[0]).render(item, _NO_SAMPLE)
        except (Ungraded, TemplateError) as exc:
            raise PromptError(f"The prompt reads {found[0]}, which this item does not have.") from exc

    return _FIELD.sub(filled, prompt)


def prompt_fields(prompt: str) -> list[str]:
    """Paths the prompt reads, in order of appearance, such as `item.country`. Raises PromptError for a bad one."""
    paths: list[str] = []
    for found in _FIELD.findall(prompt):
        try:
            paths += [str(variable) for variable in _template(found).variables]
        except TemplateError as exc:
            raise PromptError(f"{found} cannot be read: {exc.message}") from exc
    return list(dict.fromkeys(paths))


@lru_cache(maxsize=256)
def _template(source: str) -> Template:
    return Template(source)
