"""Between which rewards a recipe stays."""

import pytest

from graders.ranges import reward_ends

SAME = {"type": "string_check", "input": "a", "reference": "a", "operation": "eq"}
JUDGE = {"type": "score_model", "range": [1, 7]}
PROGRAM = {"type": "python", "source": "def grade(sample, item): return 40.0"}


def multi(formula, **more):
    return {
        "type": "multi",
        "graders": {"same": SAME, "judge": JUDGE, "program": PROGRAM},
        "calculate_output": formula,
        **more,
    }


@pytest.mark.parametrize(
    "config, ends",
    [
        (SAME, (0.0, 1.0)),
        (JUDGE, (1.0, 7.0)),
        ({"type": "score_model"}, (0.0, 1.0)),
        (PROGRAM, None),
        ({"type": "endpoint", "url": "https://x"}, None),
        (multi("0.5 * same + judge"), (1.0, 7.5)),
        (multi("same - judge"), (-7.0, 0.0)),
        (multi("same", invalid_grade=-1), (-1.0, 1.0)),
        (multi("same + program"), None),
        (multi("same +"), None),
        ({"type": "steps", "grader": JUDGE, "combine": "mean"}, (1.0, 7.0)),
        ({"type": "steps", "grader": SAME, "combine": "sum"}, None),
        (None, None),
    ],
)
def test_reward_ends_are_told_by_the_recipe_or_not_at_all(config, ends):
    assert reward_ends(config) == ends
