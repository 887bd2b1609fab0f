"""The matrix: each address × each kind of person. Generated from the URL list, so that none is forgotten."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import get_resolver, reverse

from rftstudio.teams.models import Role
from rftstudio.teams.permissions import RIGHTS
from rftstudio.teams.services import api_key_create
from tests.conftest import actor_in
from tests.factories.teams import TeamFactory
from tests.rights.rules import RULES, OtherRule, TeamRule
from tests.rights.world import world_of

#: What only refuses: no such thing for you, no right, method not offered.
REFUSED = {403, 404, 405}
#: Ids that stand in every team, so that a stranger's own address finds the stranger's own thing.
COMMON = {"zero", "one", "jsonl", "entry", "nonsense"}


def urls() -> Iterator[tuple[str, str]]:
    """Name and route of every address but the admin's, which asks for staff at one door."""

    def walk(patterns, prefix: str, space: str):
        for one in patterns:
            route = prefix + str(one.pattern)
            if not hasattr(one, "url_patterns"):
                yield f"{space}{one.name}", route
            elif one.namespace != "admin":
                yield from walk(one.url_patterns, route, f"{space}{one.namespace}:" if one.namespace else space)

    yield from walk(get_resolver().url_patterns, "", "")


def test_every_address_has_a_rule_and_every_rule_an_address():
    known = dict(urls())
    assert sorted(known) == sorted(RULES), "write a rule in tests/rights/rules.py, or remove the stale one"
    for name, route in known.items():
        assert isinstance(RULES[name], TeamRule) == ("<slug:team>" in route), name


@pytest.fixture(scope="module")
def matrix(django_db_setup, django_db_blocker):
    """Two teams with one of everything, and a browser for each kind of person; made once, undone at the end."""
    with django_db_blocker.unblock(), transaction.atomic():
        ours, theirs = TeamFactory(name="Ours", slug="ours"), TeamFactory(name="Theirs", slug="theirs")
        people = {role.value: actor_in(ours, role) for role in Role}
        people["stranger"] = actor_in(theirs, Role.OWNER)
        browsers = {"visitor": Client()}
        for who, actor in people.items():
            browsers[who] = Client(raise_request_exception=True)
            browsers[who].force_login(actor.user, backend="django.contrib.auth.backends.ModelBackend")
        keys = {
            who: api_key_create(actor=people[owner], name=who)[1]
            for who, owner in (("ours", "owner"), ("theirs", "stranger"))
        }
        yield {"ours": world_of(ours), "theirs": world_of(theirs), "browsers": browsers, "keys": keys}
        transaction.set_rollback(True)


@pytest.fixture
def ask(matrix, db):
    """`ask(who, method, name, team, of)`: the status, with whatever it changed undone."""

    def asked(who: str, method: str, name: str, *, team: str = "ours", world: str = "ours") -> int:
        rule = RULES[name]
        args = [team, *(matrix[world][thing] for thing in rule.of)]
        query = urlencode({key: matrix[world][thing] for key, thing in rule.query.items()})
        with transaction.atomic():
            url = f"{reverse(name, args=args)}?{query}"
            answer = getattr(matrix["browsers"][who], method)(url, rule.data if method == "post" else None)
            if answer.streaming:
                b"".join(answer.streaming_content)
            transaction.set_rollback(True)
        if answer.status_code == 302 and answer.url.startswith("/log-in/"):
            return 401
        return answer.status_code

    return asked


TEAM_RULES = {name: rule for name, rule in RULES.items() if isinstance(rule, TeamRule)}


def roles_asked() -> list[Role]:
    """All of them. Who may is the same on PostgreSQL; there it is asked that every address works for one who may."""
    return list(Role) if connection.vendor == "sqlite" else [Role.OWNER]


@pytest.mark.parametrize("name", TEAM_RULES)
def test_each_role_may_do_what_its_rights_say(name, ask):
    rule = TEAM_RULES[name]
    for method, right in (("get", rule.get), ("post", rule.post)):
        for role in roles_asked():
            status = ask(role.value, method, name)
            where = f"{method} {name} by {role}: {status}"
            if right is None:
                assert status == 405 or (status == 403 and role != Role.OWNER), where
            elif right in RIGHTS[role]:
                assert status not in REFUSED | {401, 500}, where
            else:
                assert status == 403, where


@pytest.mark.any_database
@pytest.mark.parametrize("name", TEAM_RULES)
def test_strangers_find_nothing_and_visitors_are_asked_to_log_in(name, ask):
    rule = TEAM_RULES[name]
    for method in filter(None, ("get" if rule.get else "", "post" if rule.post else "")):
        assert ask("stranger", method, name) == 404, f"{method} {name} of another team"
        assert ask("visitor", method, name) == 401, f"{method} {name} by a visitor"
        if set(rule.of) - COMMON:
            # Through their own team's address, with our ids: the same as an id that does not exist.
            status = ask("stranger", method, name, team="theirs", world="ours")
            assert status == 404, f"{method} {name} with a foreign id: {status}"


OTHER_RULES = {name: rule for name, rule in RULES.items() if isinstance(rule, OtherRule)}


@pytest.mark.any_database
@pytest.mark.parametrize("name", OTHER_RULES)
def test_addresses_outside_teams(name, matrix, db):
    rule = OTHER_RULES[name]
    url = reverse(name, args=[matrix["ours"][thing] for thing in rule.of])
    ask = getattr(Client(), rule.method)
    with transaction.atomic():
        answer = ask(url)
        if rule.kind == "open":
            assert answer.status_code in (200, 302, 503)
        elif rule.kind == "person":
            assert answer.status_code == 302
            assert answer.url.startswith("/log-in/")
        elif rule.kind == "unset":
            assert answer.status_code == 404
        elif rule.kind == "secret":
            assert answer.status_code in (400, 404) or b"too old" in answer.content
        else:
            assert answer.status_code == 401
            assert ask(url, headers={"Authorization": "Bearer rfts-wrong"}).status_code == 401
            assert ask(url, headers={"Authorization": f"Bearer {matrix['keys']['ours']}"}).status_code == rule.status
            if rule.of:
                assert ask(url, headers={"Authorization": f"Bearer {matrix['keys']['theirs']}"}).status_code == 404
        transaction.set_rollback(True)
