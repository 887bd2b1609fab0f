"""Keys and secrets never appear in logs, errors, answers or exports: each is used, then everything is searched for it."""

import json
import logging

import pytest
from django.test import Client
from django.urls import reverse

from jobs.agents.models import ModelEndpoint, Tool
from rftstudio.notify.services import webhook_create
from rftstudio.teams.models import Role
from rftstudio.teams.services import api_key_create
from tests.api.rest.conftest import Door
from tests.rights.api_rules import API_RULES
from tests.rights.world import world_of

pytestmark = pytest.mark.django_db

MODEL_KEY = "sk-model-Zq81LmPw44TtYv09XcRb"
HEADER = "header-value-9f3Kq2LmZx"
QUERY = "query-token-77Hq1LmZx"


@pytest.fixture
def everything(team, owner, member, client, settings, caplog):
    """A team whose model, tool, webhook and key have secrets, its doors, and what was said while they were used."""
    settings.STUDIO_API_REQUESTS_PER_MINUTE = 0
    caplog.set_level(logging.DEBUG)
    world = world_of(team)
    key, secret = api_key_create(actor=owner, name="script", role=Role.OWNER)
    webhook, hook_secret = webhook_create(actor=owner, url="https://hooks.example.com/x")
    door = Door(secret)
    said = [
        door.post("/api/models", {"name": "Outside", "kind": "openai", "model": "m", "api_key": MODEL_KEY,
                                  "base_url": "https://models.example.com/v1"}),
        door.post("/api/tools", {"name": "find", "description": "Finds a ruling by its number.", "transport": "http",
                                 "parameters": {"type": "object", "properties": {}}, "headers": {"X-Key": HEADER},
                                 "config": {"server_url": f"https://tools.example.com/find?token={QUERY}"}}),
        door.post("/api/graders", {"name": "Outside", "config": {
            "type": "endpoint", "name": "e", "url": "https://grader.example.com/", "headers": {"X-Key": HEADER}}}),
    ]  # fmt: skip
    for answer in said:
        assert answer.status_code == 201, answer.content
    tool = Tool.objects.get(name="find")
    world |= {"key": key.public_id, "webhook": webhook.public_id, "tool": tool.public_id,
              "model": ModelEndpoint.objects.get(name="Outside").public_id}  # fmt: skip
    client.force_login(owner.user, backend="django.contrib.auth.backends.ModelBackend")
    secrets = {"key": secret, "webhook": hook_secret, "model": MODEL_KEY, "header": HEADER, "query": QUERY}
    return {"world": world, "door": door, "browser": client, "secrets": secrets, "said": said, "tool": tool}


def test_no_answer_page_export_error_or_log_line_holds_a_secret(everything, team, caplog, capsys):
    world, door, browser = everything["world"], everything["door"], everything["browser"]
    texts = {f"made {n}": answer.content.decode() for n, answer in enumerate(everything["said"])}
    for name, rule in API_RULES.items():
        url = reverse(name, args=[world[thing] for thing in rule.of])
        for method in rule.methods:
            if name.endswith(("key-revoke", "webhook-secret")):
                continue
            answer = getattr(door, method)(url)
            texts[f"{method} {name}"] = _text(answer)
        if "get" in rule.methods:
            texts[f"person {name}"] = _text(browser.get(url, headers={"x-team": team.slug}))
    tool = everything["tool"]
    tool_url = f"/api/tools/{tool.public_id}"
    texts["refused"] = _text(door.patch(tool_url, {"config": {"server_url": f"http://127.0.0.1/?token={QUERY}"}}))
    texts["tried"] = _text(door.post(f"{tool_url}/test", {"arguments": {}}))
    for page in ("agents:model-list", "agents:tool-list", "teams:key-list", "teams:audit-list", "teams:audit-export",
                 "usage:ledger-export", "notify:notice-list", "rollouts:rollout-export"):  # fmt: skip
        texts[page] = _text(browser.get(reverse(page, args=[team.slug])))
    texts["tool page"] = _text(browser.get(reverse("agents:tool-detail", args=[team.slug, tool.public_id])))
    texts["webhook page"] = _text(browser.get(reverse("notify:webhook-detail", args=[team.slug, world["webhook"]])))
    texts["wrong key"] = _text(Client().get("/v1/models", headers={"authorization": everything["secrets"]["key"]}))
    out = capsys.readouterr()
    texts["log"] = out.out + out.err + "\n".join(record.getMessage() for record in caplog.records)
    assert len(texts["log"]) > 1000  # the search looked at something
    leaks = [
        f"{what}: the {name} secret"
        for what, text in texts.items()
        for name, secret in everything["secrets"].items()
        if secret in text
    ]
    assert leaks == []


def _text(answer) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return content.decode("utf-8", "replace") + json.dumps(dict(answer.items()))
