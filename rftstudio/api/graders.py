"""`/v1/fine_tuning/alpha/graders/run` and `/validate`: grade one sample with a recipe, or only check the recipe.

A grader that fails is no failed request: the answer is 200 with its flags. A recipe that cannot be used is a 400 with
every reason.
"""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from graders.costs import judging_record
from graders.samples import parsed
from graders.services import draft_compiled
from graders.types import Sample
from graders.validation import is_costly
from graders.wire import run_answer
from rftstudio.api.doors import actor_of, body_of, door
from rftstudio.api.job_requests import hidden
from rftstudio.core.errors import UserError
from rftstudio.orders import parts
from rftstudio.teams.permissions import Permission
from rftstudio.usage.services import check_open

#: What tests of graders cost is booked under this source.
SOURCE = "grader-test"


class GraderRunWire(serializers.Serializer):
    grader = serializers.DictField()
    model_sample = serializers.CharField(allow_blank=True)
    item = serializers.DictField(required=False)
    trace_id = serializers.CharField(required=False, allow_null=True)


class GraderValidateWire(serializers.Serializer):
    grader = serializers.DictField()


class GraderAnswerWire(serializers.Serializer):
    reward = serializers.FloatField()
    metadata = serializers.DictField()
    sub_rewards = serializers.DictField()
    model_grader_token_usage_per_model = serializers.DictField()


def _grader_of(body: dict[str, Any]) -> dict[str, Any]:
    grader = body.get("grader")
    if grader is None:
        raise UserError("Missing required parameter: grader.", where="grader", code="missing_required_parameter")
    parts.check_grader(grader, where="grader")
    return grader


@door("POST", "runGrader", summary="Grade one sample", body=GraderRunWire, answer=GraderAnswerWire)
def grader_run(request: Request) -> dict[str, Any]:
    """A recipe that calls a judge or a server spends the team's money and asks for the right to edit graders."""
    actor = actor_of(request)
    body = body_of(request, known={"grader", "model_sample", "item", "trace_id"})
    grader, text, item = _grader_of(body), body.get("model_sample"), body.get("item")
    if not isinstance(text, str):
        raise UserError(
            "model_sample must be a text.", where="model_sample", fix="Send the model's answer as one text."
        )
    if item is not None and not isinstance(item, dict):
        raise UserError("item must be an object.", where="item", fix="Send the row as it stands in the file.")
    if is_costly(grader):
        actor_of(request, Permission.GRADER_EDIT)
        check_open(actor.team)
    with draft_compiled(team=actor.team, config=grader) as compiled:
        compiled.prepare()
        grade = compiled.grade(item or {}, sample_of(text), str(body.get("trace_id") or "")[:64])
    judging_record(team=actor.team, grades=[grade], source=SOURCE)
    return run_answer(grader, grade)


def sample_of(text: str) -> Sample:
    """An answer as graders see it; `output_json` is there when the text is JSON."""
    message = {"role": "assistant", "content": text, "tool_calls": []}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return Sample(output_text=text, output_json=parsed(text), choices=choices)


@door("POST", "validateGrader", summary="Check a grader", body=GraderValidateWire, answer=GraderValidateWire)
def grader_validate(request: Request) -> dict[str, Any]:
    """Answers with the same grader, header values hidden."""
    actor_of(request)
    return {"grader": hidden(_grader_of(body_of(request, known={"grader"})))}
