"""All kinds by their `type`, in the order in which they are offered."""

from graders.kinds import (
    confined,
    endpoint,
    multi,
    numeric,
    python,
    set_f1,
    steps,
    string_check,
    text_similarity,
    tool_calls,
)
from graders.kinds.base import Kind
from graders.kinds.budgets import TOKEN_BUDGET, TOOL_BUDGET
from graders.kinds.model_judges import LABEL_MODEL, SCORE_MODEL

_ALL = (
    multi.KIND,
    string_check.KIND,
    numeric.KIND,
    text_similarity.KIND,
    set_f1.KIND,
    SCORE_MODEL,
    LABEL_MODEL,
    python.KIND,
    endpoint.KIND,
    tool_calls.KIND,
    TOOL_BUDGET,
    TOKEN_BUDGET,
    confined.REGEX,
    confined.JSON_SCHEMA,
    steps.KIND,
)
KINDS: dict[str, Kind] = {kind.type: kind for kind in _ALL}
