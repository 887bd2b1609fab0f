"""The guides' examples are run as they stand: those of docs/api.md against a Studio that is served for them."""

import re
from pathlib import Path

import pytest

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Role
from rftstudio.teams.services import api_key_create
from tests.factories.teams import TeamFactory

DOCS = Path(__file__).resolve().parents[1] / "docs"


def examples(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), flags=re.S | re.M)


@pytest.mark.django_db(transaction=True)
def test_the_api_guides_examples_do_what_they_say(live_server, capsys):
    team = TeamFactory(name="Duty desk", slug="duty-desk")
    key = api_key_create(actor=Actor(team=team, role=Role.OWNER), name="guide", role=Role.ENGINEER)[1]
    room: dict = {"BASE": live_server.url, "KEY": key}
    for example in examples("api.md"):
        exec(compile(example, "docs/api.md", "exec"), room)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Duty desk engineer ['view'")
    assert said[1:7] == ["draft 30", "frozen", "[]", "1.0", "1", "queued block"]
    assert any(line.startswith("409 not_ready ") for line in said)
    assert said[-7:] == [
        "True true",
        "304 200 412",
        "400 application/problem+json",
        "dataset_version This field is required.",
        "agent_version This field is required.",
        "grader_version This field is required.",
        'split "sideways" is not a valid choice.',
    ]
    assert "30" in said  # every item was met once
    assert "5" in said
    assert "0 0" in said


def test_the_webhook_guides_example_takes_what_studio_sends():
    import base64
    from datetime import UTC, datetime

    from rftstudio.core.sealed import seal
    from rftstudio.notify.models import Event, Webhook
    from rftstudio.notify.sending import headers_of, payload

    secret = "whsec_" + base64.b64encode(b"0" * 24).decode()
    event = Event(
        public_id="evt_1", type="fine_tuning.job.succeeded", object_id="ftjob-1", happened_at=datetime.now(UTC)
    )
    body = payload(event)
    headers = headers_of(Webhook(secret_sealed=seal(secret)), event, body, datetime.now(UTC))
    room = {"SECRET": secret, "BODY": body, "HEADERS": headers}
    for example in examples("webhooks.md"):
        exec(compile(example, "docs/webhooks.md", "exec"), room)
    assert room["event"]["data"] == {"id": "ftjob-1"}
