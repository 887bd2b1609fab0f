"""Random requests made from the published description: nothing answers 5xx, nothing answers what is not described."""

import json
import re

import pytest
import requests
import schemathesis
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rftstudio.api.docs import schema_text
from rftstudio.teams.models import Role, Team
from rftstudio.teams.permissions import KEY_RIGHTS
from tests.api.rest.conftest import key_of
from tests.api.rest.worlds import parameters
from tests.conftest import actor_in
from tests.rights.world import world_of

pytestmark = pytest.mark.any_database

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Of each operation and way; with all operations this is half a minute.
EXAMPLES = 2
#: A key manages neither members nor keys and approves no money, so these are asked with a person's session.
PERSONS = re.compile("Needs the right `(?!({})`)".format("|".join(KEY_RIGHTS)))


@pytest.fixture(scope="module")
def door(django_db_setup, django_db_blocker):
    """The description, one team with one of everything, and who asks."""
    with django_db_blocker.unblock(), transaction.atomic():
        team = Team.objects.create(name="Ours", slug="ours")
        browser = Client(raise_request_exception=False)
        browser.force_login(actor_in(team, Role.OWNER).user, backend="django.contrib.auth.backends.ModelBackend")
        yield {
            "schema": schemathesis.openapi.from_dict(json.loads(schema_text())),
            "world": world_of(team),
            "key": (Client(raise_request_exception=False), {"Authorization": f"Bearer {key_of(team, Role.OWNER)}"}),
            "session": (browser, {"X-Team": "ours"}),
        }
        transaction.set_rollback(True)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
def test_random_requests_get_described_answers(mode, door, db, settings_of_test):
    faults = []
    for result in door["schema"].get_all_operations():
        operation = result.ok()
        try:
            _try(operation, mode, door)
        except BaseException as exc:  # all of them are told, not the first alone
            if isinstance(exc, KeyboardInterrupt):
                raise
            faults.append(f"{operation.label}\n{exc}"[:1500])
    assert not faults, f"{len(faults)} operations\n" + "\n\n".join(faults)


@pytest.fixture
def settings_of_test(settings):
    settings.STUDIO_API_REQUESTS_PER_MINUTE = 0


def _try(operation, mode, door) -> None:
    names = re.findall(r"{(\w+)}", operation.path)
    fixed = {"path_parameters": parameters(operation.path, names, door["world"])} if names else {}
    asks_person = PERSONS.search(operation.definition.raw.get("description", ""))
    client, headers = door["session" if asks_person else "key"]

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(mode, **fixed))
    def tried(case) -> None:
        with transaction.atomic():
            try:
                case.validate_response(_send(client, case, headers), checks=CHECKS)
            finally:
                transaction.set_rollback(True)

    tried()


def _send(client: Client, case, headers: dict[str, str]) -> schemathesis.Response:
    """The request as it would go over the wire, handed to the application in this thread and its transaction."""
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://testserver", headers=headers)).prepare()
    given = {name.lower(): value for name, value in sent.headers.items()}
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    answer = client.generic(
        sent.method, sent.url.removeprefix("http://testserver"), body,
        content_type=given.pop("content-type", "application/octet-stream"), headers=given,
    )  # fmt: skip
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return schemathesis.Response(
        status_code=answer.status_code, headers={name.lower(): [value] for name, value in answer.items()},
        content=content, request=sent, elapsed=0.01, verify=False,
    )  # fmt: skip
