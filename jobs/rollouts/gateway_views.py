"""The gateway's two doors, in the wire shape of Agent RFT tools and endpoint graders.

    POST /gateway/<secret>/tool    {type, id, call_id, name, arguments, trace_id, item}
                                →  {type: "function_call_output", call_id, id, output}
    POST /gateway/<secret>/grader  {sample, item, trace_id}  →  {score}

A bad request is a 400 and an unknown secret a 404, both with `error.message`; 5xx asks the trainer to come again.
"""

import json
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from jobs.rollouts import gateway
from rftstudio.core.errors import Conflict, StudioError, UserError

BUSY = 503


@csrf_exempt
@require_POST
def tool(request: HttpRequest, secret: str) -> JsonResponse:
    return _answered(request, secret, gateway.tool_answer)


@csrf_exempt
@require_POST
def grader(request: HttpRequest, secret: str) -> JsonResponse:
    return _answered(request, secret, gateway.grade_answer)


def _answered(request: HttpRequest, secret: str, answer: Callable[..., dict[str, Any]]) -> JsonResponse:
    try:
        return JsonResponse(answer(gateway.gateway_get(secret), _body(request)))
    except StudioError as exc:
        status = BUSY if isinstance(exc, Conflict) else exc.status
        return JsonResponse(
            {"error": {"message": str(exc), "param": exc.where or None, "code": exc.code}}, status=status
        )


def _body(request: HttpRequest) -> dict[str, Any]:
    if int(request.headers.get("Content-Length") or 0) > gateway.MAX_BODY:
        raise _TooLarge(f"The call is larger than {gateway.MAX_BODY} bytes.")
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError) as exc:
        raise UserError("The body is not JSON.") from exc
    if not isinstance(body, dict):
        raise UserError("The body must be a JSON object.")
    return body


class _TooLarge(UserError):
    status = 413
    code = "too_large"
