"""A network that answers what a test wrote down."""

import json
from typing import Any

from graders.clients import GraderClients, HttpAnswer, JudgeEndpoint


class ScriptedHttp:
    """Answers in turn: (status, body) pairs, bodies, or exceptions; the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    def post(self, url: str, *, headers: dict[str, str], body: bytes, seconds: float) -> HttpAnswer:
        self.requests.append((url, headers, json.loads(body)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, text = answer if isinstance(answer, tuple) else (200, answer)
        return HttpAnswer(status, text.encode() if isinstance(text, str) else text)


def chat_reply(text: str | None, *, refusal: str | None = None, prompt: int = 20, completion: int = 5) -> str:
    """A Chat Completions answer."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


def clients(*answers: Any) -> tuple[GraderClients, ScriptedHttp]:
    http = ScriptedHttp(*answers)
    endpoint = JudgeEndpoint("http://judge.test/v1", "wire-name", {"Authorization": "Bearer sk-secret"})
    judge = {"judge": endpoint}.get
    return GraderClients(owner="test", http=http, judge=judge, sleep=lambda seconds: None), http
