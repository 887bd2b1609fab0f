"""Idempotency keys: a POST that is sent again with the same key changes nothing more and gets the same answer.

The answer is kept in the transaction of the write itself. So either both are there or neither is, and of two requests at
once the second waits for the first. What is refused is not kept: it changed nothing and may be asked again.
"""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from rftstudio.api.rest.limits import who_asks
from rftstudio.api.rest.models import KeptAnswer, RequestCount
from rftstudio.api.rest.problems import KeyReused
from rftstudio.core.errors import UserError
from rftstudio.core.sealed import seal, unseal

HEADER = "Idempotency-Key"
KEPT = timedelta(hours=24)


def answer_once(request: Request, handler: Callable[[], Response]) -> Response:
    """The handler's answer, or the one it gave to the same request before."""
    key = request.headers[HEADER]
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise UserError(
            "An Idempotency-Key is 1 to 255 ASCII characters.", where=HEADER, fix="Use a UUID for each request."
        )
    digest = _digest(request)
    with transaction.atomic():
        row, is_new = KeptAnswer.objects.get_or_create(
            team=request.auth.team, who=who_asks(request), key=key, defaults={"digest": digest}
        )
        if not is_new and row.created_at < timezone.now() - KEPT:
            KeptAnswer.objects.filter(pk=row.pk).update(digest=digest, created_at=timezone.now())
            is_new = True
        if is_new:
            return _keep(row, handler())
    if row.digest != digest:
        raise KeyReused
    import orjson

    body = orjson.loads(unseal(row.body_sealed) or "null")
    return Response(body, status=row.status, headers={"Idempotent-Replayed": "true"})


def _keep(row: KeptAnswer, response: Response) -> Response:
    text = JSONRenderer().render(response.data).decode() if response.data is not None else "null"
    KeptAnswer.objects.filter(pk=row.pk).update(status=response.status_code, body_sealed=seal(text))
    return response


def _digest(request: Request) -> str:
    found = hashlib.sha256(f"{request.method} {request.get_full_path()}\0".encode())
    if request.content_type.startswith("multipart/"):  # the boundary differs each time, so its parts are taken
        for name, values in sorted(request.data.lists()):
            for value in values:
                found.update(f"{name}\0".encode())
                _take(found, value)
    else:
        found.update(JSONRenderer().render(request.data))
    return found.hexdigest()


def _take(found: Any, value: Any) -> None:
    if isinstance(value, UploadedFile):
        for chunk in value.chunks():
            found.update(chunk)
        value.seek(0)
    else:
        found.update(f"{value}\0".encode())


def kept_sweep() -> int:
    """Forget answers after a day and counts after an hour; returns how many answers went."""
    now = timezone.now()
    RequestCount.objects.filter(minute__lt=int(now.timestamp() // 60) - 60).delete()
    return KeptAnswer.objects.filter(created_at__lt=now - KEPT).delete()[0]
