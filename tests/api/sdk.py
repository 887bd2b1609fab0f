"""The unmodified openai SDK, talking to our WSGI application in this very process, so that a test's rows are seen."""

from typing import Any

import httpx2
import openai
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections


def _application():
    """Ours, without closing the test's own connection, as Django's test client does it."""
    app = get_wsgi_application()

    def call(environ, start_response):
        for signal in (request_started, request_finished):
            signal.disconnect(close_old_connections)
        try:
            answer = app(environ, start_response)
            body = list(answer)
            answer.close()
            return body
        finally:
            for signal in (request_started, request_finished):
                signal.connect(close_old_connections)

    return call


def sdk(secret: str, **options: Any) -> openai.OpenAI:
    http = httpx2.Client(transport=httpx2.WSGITransport(app=_application()), base_url="http://testserver")
    return openai.OpenAI(
        api_key=secret, base_url="http://testserver/v1", http_client=http, **{"max_retries": 0, **options}
    )
