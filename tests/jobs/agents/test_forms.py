"""Settings of a built-in tool, written as lines by someone who writes no JSON."""

import pytest
from django.core.exceptions import ValidationError

from jobs.agents.forms import SettingsField
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
