"""The door of /api as a script uses it: `rest(actor)` asks with a key of that person's role."""

import json
from typing import Any

import pytest
from django.test import Client

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Role
from rftstudio.teams.services import api_key_create


class Door:
    """`get`, `post`, `put`, `patch`, `delete` of JSON with a key; answers are Django's."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.client = Client(raise_request_exception=False)

    def __getattr__(self, method: str):
        def ask(path: str, body: Any = None, **headers: str):
            headers = {"authorization": f"Bearer {self.secret}", **headers}
            more = (
                {}
                if method == "get"
                else {"data": json.dumps({} if body is None else body), "content_type": "application/json"}
            )
            return getattr(self.client, method)(path, headers=headers, **more)

        return ask

    def upload(self, path: str, **parts: Any):
        return self.client.post(path, parts, headers={"authorization": f"Bearer {self.secret}"})


def key_of(team, role: str = Role.ENGINEER, **more: Any) -> str:
    return api_key_create(actor=Actor(team=team, role=Role.OWNER), name="script", role=role, **more)[1]


@pytest.fixture
def rest(team) -> Door:
    return Door(key_of(team))


@pytest.fixture
def theirs(stranger) -> Door:
    return Door(key_of(stranger.team))
