"""`/v1/models` as the reference's clients read it."""

import pytest

from jobs.agents.models import ModelEndpoint
from rftstudio.teams.services import api_key_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def secret(owner):
    return api_key_create(actor=owner, name="script")[1]


@pytest.fixture
def ask(client, secret):
    return lambda path, key=secret: client.get(path, headers={"authorization": f"Bearer {key}"} if key else {})


@pytest.fixture
def models(team, stranger):
    mine = ModelEndpoint.objects.create(team=team, name="org/base:1", kind="openai", model="base")
    ModelEndpoint.objects.create(team=stranger.team, name="theirs", kind="openai", model="theirs")
    return mine


def test_model_list_shows_the_teams_models_only(ask, models):
    answer = ask("/v1/models")
    assert answer.status_code == 200
    assert answer.json() == {
        "object": "list",
        "data": [
            {
                "id": "org/base:1",
                "object": "model",
                "created": int(models.created_at.timestamp()),
                "owned_by": "duty-desk",
                "studio": {"kind": "openai", "is_trainable": False},
            }
        ],
    }


def test_model_list_asks_as_many_queries_for_many_as_for_one(ask, models, team, django_assert_num_queries):
    for n in range(20):
        ModelEndpoint.objects.create(team=team, name=f"m{n}", kind="openai", model="m")
    with django_assert_num_queries(6):  # key, its last use, its requests of this minute, models, aliases, tuned ones
        assert len(ask("/v1/models").json()["data"]) == 21


def test_model_get_finds_a_name_with_slashes(ask, models):
    assert ask("/v1/models/org/base:1").json()["id"] == "org/base:1"


def test_model_get_of_another_team_does_not_exist(ask, models):
    answer = ask("/v1/models/theirs")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("key", "code", "words"), [(None, None, "didn't provide"), ("rfts-wrong", "invalid_api_key", "Incorrect API key")]
)
def test_model_list_without_a_good_key_is_401_in_the_envelope(ask, models, key, code, words):
    answer = ask("/v1/models", key)
    assert answer.status_code == 401
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert error["type"] == "invalid_request_error"
    assert words in error["message"]


def test_unknown_address_and_method_are_said_in_the_envelope(ask, client, secret):
    answer = ask("/v1/assistants")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
    answer = client.put("/v1/models", headers={"Authorization": f"Bearer {secret}"})
    assert (answer.status_code, set(answer.json()["error"])) == (405, {"message", "type", "param", "code"})
    for name in ("a%00b", "%ff", "ft:a:b:c:d", "x" * 3000):
        assert ask(f"/v1/models/{name}").status_code == 404
        assert ask(f"/v1/files/{name}").status_code == 404
        assert ask(f"/v1/fine_tuning/jobs/{name}").status_code == 404
        assert ask(f"/v1/evals/{name}/runs").status_code == 404
