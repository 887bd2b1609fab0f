"""Model aliases: the console's page and the command, and what a name means to whom."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from jobs.agents.models import ModelEndpoint
from rftstudio.core.errors import UserError
from rftstudio.orders import named
from rftstudio.orders.models import ModelAlias

pytestmark = pytest.mark.django_db
FIELDS = {"name": "o4-mini", "team": "", "backend": "trl", "target": "/models/seven", "reply_tokens": 512,
          "baseline_items": 8, "baseline_samples": 4, "is_readiness_binding": "on", "defaults": '{"lora_r": 16}', "note": ""}  # fmt: skip


@pytest.fixture
def admin(owner, client):
    owner.user.is_staff = owner.user.is_superuser = True
    owner.user.save()
    client.force_login(owner.user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_alias_is_made_and_changed_in_the_console(admin):
    url = reverse("admin:orders_modelalias_add")
    assert admin.get(url).status_code == 200
    assert admin.post(url, FIELDS).status_code == 302
    alias = ModelAlias.objects.get()
    assert (alias.target, alias.defaults, alias.is_readiness_binding) == ("/models/seven", {"lora_r": 16}, True)
    assert b"o4-mini" in admin.get(reverse("admin:orders_modelalias_changelist")).content
    assert admin.get(reverse("admin:orders_joborder_changelist")).status_code == 200


@pytest.mark.parametrize("defaults", ['{"colour": 1}', '{"n_epochs": 99}', "[1]"])
def test_defaults_that_no_job_could_have_are_refused(admin, defaults):
    answer = admin.post(reverse("admin:orders_modelalias_add"), {**FIELDS, "defaults": defaults})
    assert answer.status_code == 200
    assert not ModelAlias.objects.exists()


def test_alias_set_makes_changes_and_refuses(team):
    said = StringIO()
    call_command("alias_set", "o4-mini", "--target", "/models/seven", "--readiness", "noted", stdout=said)
    call_command("alias_set", "o4-mini", "--reply-tokens", "99", stdout=said)
    alias = ModelAlias.objects.get()
    assert (alias.target, alias.reply_tokens, alias.is_readiness_binding) == ("/models/seven", 99, False)
    call_command("alias_set", "o4-mini", "--target", "/own", "--team", team.slug, stdout=said)
    assert ModelAlias.objects.count() == 2
    for wrong in (
        ["x"],
        ["x", "--target", "y", "--team", "none"],
        ["x", "--target", "y", "--defaults", '{"colour": 1}'],
    ):
        with pytest.raises(CommandError):
            call_command("alias_set", *wrong, stdout=said)


def test_name_means_the_teams_own_alias_before_the_one_for_all(team, stranger):
    ModelAlias.objects.create(name="o4-mini", target="/for-all")
    ModelAlias.objects.create(name="o4-mini", target="/ours", team=team)
    assert named.base_find(team=team, name="o4-mini").model.model == "/ours"
    assert named.base_find(team=stranger.team, name="o4-mini").model.model == "/for-all"
    assert named.base_find(team=team, name="o4-mini").model.is_trainable
    assert ModelEndpoint.objects.count() == 2, "looked up again, it is found"


def test_hosted_alias_needs_the_teams_model(team):
    ModelAlias.objects.create(name="gpt-5", target="ours at the provider", backend="openai")
    with pytest.raises(UserError, match="this team has no such model"):
        named.base_find(team=team, name="gpt-5")
    ModelEndpoint.objects.create(team=team, name="ours at the provider", kind="openai", model="gpt-5-2025-08-07")
    base = named.base_find(team=team, name="gpt-5")
    assert (base.backend, base.model.model) == ("openai", "gpt-5-2025-08-07")


@pytest.mark.parametrize(
    "name", ["ft:", "ft:a:b:c:short", "ft:a:b:c:AbCdEfGhIjKlMnOpQrSt", "ft:a:b::AbCdEfGhIjKlMnOpQrSt:ckpt-step-1"]
)
def test_names_of_tuned_models_that_do_not_exist_mean_nothing(team, name):
    assert named.tuned_find(team=team, name=name) is None
