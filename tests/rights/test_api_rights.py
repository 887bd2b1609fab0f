"""Each address of /api × each role, by key and by session: the right decides, strangers find nothing."""

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Role
from rftstudio.teams.permissions import KEY_RIGHTS, RIGHTS, Permission
from rftstudio.teams.services import api_key_create
from tests.conftest import actor_in
from tests.factories.teams import TeamFactory
from tests.rights.api_rules import API_RULES
from tests.rights.world import world_of

pytestmark = pytest.mark.any_database

METHODS = ("get", "post", "put", "patch", "delete")
COMMON = {"zero", "entry", "method"}
#: The task of the world names the people who label it, and a key is none of them.
NAMED = {"api:rest:entry-claim", "api:rest:label-undo"}


@pytest.fixture(scope="module")
def matrix(django_db_setup, django_db_blocker):
    """Two teams with one of everything; a key and a logged-in person of each role, and a stranger's key."""
    with django_db_blocker.unblock(), transaction.atomic():
        ours, theirs = TeamFactory(name="Ours", slug="ours"), TeamFactory(name="Theirs", slug="theirs")
        asks = {}
        for role in Role:
            secret = _key(ours, role)
            asks[f"key:{role}"] = (Client(), {"authorization": f"Bearer {secret}"})
            browser = Client()
            browser.force_login(actor_in(ours, role).user, backend="django.contrib.auth.backends.ModelBackend")
            asks[f"person:{role}"] = (browser, {"x-team": "ours"})
        asks["narrowed"] = (Client(), {"authorization": f"Bearer {_key(ours, Role.ENGINEER, scopes=['view'])}"})
        asks["stranger"] = (Client(), {"authorization": f"Bearer {_key(theirs, Role.ENGINEER)}"})
        stranger = Client()
        stranger.force_login(actor_in(theirs, Role.OWNER).user, backend="django.contrib.auth.backends.ModelBackend")
        asks["stranger-person"] = (stranger, {"x-team": "theirs"})
        asks["intruder"] = (stranger, {"x-team": "ours"})
        asks["nobody"] = (Client(), {})
        asks["wrong"] = (Client(), {"authorization": "Bearer rfts-wrong"})
        yield {"world": world_of(ours), "asks": asks, "theirs": world_of(theirs)}
        transaction.set_rollback(True)


def _key(team, role, **more) -> str:
    return api_key_create(actor=Actor(team=team, role=Role.OWNER), name="script", role=role, **more)[1]


@pytest.fixture
def ask(matrix, db, settings):
    """`ask(who, method, name)`: the status, with whatever it changed undone. The body is empty: rights come first."""
    settings.STUDIO_API_REQUESTS_PER_MINUTE = 0

    def asked(who: str, method: str, name: str) -> int:
        client, headers = matrix["asks"][who]
        url = reverse(name, args=[matrix["world"][thing] for thing in API_RULES[name].of])
        body = {} if method == "get" else {"data": "{}", "content_type": "application/json"}
        with transaction.atomic():
            answer = getattr(client, method)(url, headers=headers, **body)
            if answer.streaming:
                b"".join(answer.streaming_content)
            transaction.set_rollback(True)
        return answer.status_code

    return asked


@pytest.mark.parametrize("name", API_RULES)
def test_each_key_and_person_may_do_what_its_rights_say(name, ask):
    for method, right in API_RULES[name].methods.items():
        for role in Role:
            for kind in ("key", "person") if name not in NAMED else ("person",):
                may = right in RIGHTS[role] and (kind == "person" or right in KEY_RIGHTS)
                status = ask(f"{kind}:{role}", method, name)
                where = f"{method} {name} by {kind} {role}: {status}"
                assert (status not in {401, 403, 404, 405} and status < 500) if may else status == 403, where
        if right != Permission.VIEW:
            assert ask("narrowed", method, name) == 403, f"{method} {name} by a key for reading only"


@pytest.mark.parametrize("name", API_RULES)
def test_methods_that_are_not_named_are_not_offered(name, ask):
    for method in METHODS:
        if method not in API_RULES[name].methods:
            assert ask("person:owner", method, name) == 405, f"{method} {name}"


@pytest.mark.parametrize("name", API_RULES)
def test_strangers_find_nothing_and_without_a_key_one_is_asked_for(name, ask):
    rule = API_RULES[name]
    for method, right in rule.methods.items():
        assert ask("nobody", method, name) == 401, f"{method} {name} without a key"
        assert ask("wrong", method, name) == 401, f"{method} {name} with a wrong key"
        assert ask("intruder", method, name) == 404, f"{method} {name} for a team of others"
        if set(rule.of) - COMMON:
            assert ask("stranger-person", method, name) == 404, f"{method} {name} with a foreign id"
            if right in RIGHTS[Role.ENGINEER]:
                assert ask("stranger", method, name) == 404, f"{method} {name} with a foreign id and a key"
