"""Settings of a built-in tool, written as lines by someone who writes no JSON."""

import pytest
from django.core.exceptions import ValidationError

from jobs.agents.forms import SettingsField
from jobs.agents.tools.arguments import ArgumentError, parse_arguments
from jobs.agents.tools.builtins.catalog import BUILTINS

FIELD = SettingsField()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"item_field": "schedule", "key": "good"},
        {"limit": 5, "mode": "search", "exact": True},
        {"code": "007", "number": "5", "word": "true", "note": " kept ", "url": "https://a/b:c"},
        {"args": ["-m", "server"], "env": {"A": "b"}},
        {"text": "two\nlines"},
    ],
)
def test_settings_come_back_as_they_were(settings):
    assert FIELD.clean(FIELD.prepare_value(settings)) == settings


def test_lines_are_read_and_json_too():
    assert FIELD.clean("mode: search\n\nlimit: 5") == {"mode": "search", "limit": 5}
    assert FIELD.clean('{"mode": "search"}') == {"mode": "search"}
    with pytest.raises(ValidationError, match="Line 2"):
        FIELD.clean("mode: search\nlimit 5")


@pytest.mark.parametrize("builtin", BUILTINS.values(), ids=lambda builtin: builtin.kind)
def test_examples_on_the_page_are_settings(builtin):
    assert FIELD.clean(builtin.example)


@pytest.mark.parametrize("text", ['{"a": ' + "9" * 5000 + "}", '{"a":' * 3000])
def test_json_that_cannot_be_read_is_a_message(text):
    with pytest.raises(ValidationError):
        FIELD.clean(text)


@pytest.mark.parametrize("text", ['{"a": ' + "9" * 5000 + "}", '{"a":' * 3000])
def test_arguments_that_cannot_be_read_are_answered_to_the_model(text):
    with pytest.raises(ArgumentError, match="^Error"):
        parse_arguments(text, {})
