"""Drafts, versions, secrets and who may write them."""

import pytest

from graders.models import Grader, GraderVersion
from graders.secrets import SHOWN, shown_config
from graders.selectors import grader_get, grader_list, grader_version_get, grader_wire_config
from graders.services import (
    GraderRefused,
    grader_compiled,
    grader_create,
    grader_draft_discard,
    grader_draft_save,
    grader_version_publish,
)
from graders.types import Sample
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent

EXACT = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}
ENDPOINT = {"type": "endpoint", "url": "https://g.example.com/", "headers": {"Authorization": "Bearer s3cret"}}


@pytest.fixture
def grader(member):
    return grader_create(actor=member, name="Exact answer", config=EXACT)


def test_grader_create_keeps_the_draft_and_writes_the_audit(member, grader):
    assert grader.draft == {"name": "Exact answer", **EXACT}
    assert AuditEvent.objects.filter(verb="grader.created", object_id=grader.public_id).exists()


def test_grader_create_twice_under_one_name_is_refused(member, grader):
    with pytest.raises(Conflict):
        grader_create(actor=member, name="Exact  answer", config=EXACT)
    assert Grader.objects.count() == 1


@pytest.mark.parametrize("name", ["", "   ", "x" * 121])
def test_grader_create_without_a_usable_name_is_refused(member, name):
    with pytest.raises(UserError):
        grader_create(actor=member, name=name, config=EXACT)


def test_viewer_may_not_write(viewer, grader):
    for write in (
        lambda: grader_create(actor=viewer, name="x", config=EXACT),
        lambda: grader_draft_save(actor=viewer, grader=grader, config=EXACT),
        lambda: grader_version_publish(actor=viewer, grader=grader),
        lambda: grader_draft_discard(actor=viewer, grader=grader),
    ):
        with pytest.raises(NotAllowed):
            write()


def test_stranger_finds_nothing(stranger, grader):
    with pytest.raises(NotFound):
        grader_draft_save(actor=stranger, grader=grader, config=EXACT)
    with pytest.raises(NotFound):
        grader_get(team=stranger.team, public_id=grader.public_id)
    assert list(grader_list(team=stranger.team)) == []


@pytest.mark.parametrize("config", [[], {"a": float("nan")}, {"a": "\x00"}, {"a": "\ud800"}, {"a": "x" * 1_000_001}])
def test_draft_that_cannot_be_stored_is_refused(member, grader, config):
    with pytest.raises(UserError):
        grader_draft_save(actor=member, grader=grader, config=config)


def test_publish_freezes_the_recipe_and_counts_versions(member, grader):
    first = grader_version_publish(actor=member, grader=grader)
    grader_draft_save(actor=member, grader=grader, config={**EXACT, "operation": "ne", "pass_threshold": 0.8})
    second = grader_version_publish(actor=member, grader=grader, note="the other way round")
    first.refresh_from_db()
    assert (first.number, first.config["operation"], first.pass_threshold) == (1, "eq", 0.5)
    assert (second.number, second.config["operation"], second.pass_threshold) == (2, "ne", 0.8)


def test_publish_with_problems_is_refused_and_names_them(member, grader):
    grader_draft_save(actor=member, grader=grader, config={**EXACT, "operation": "neq", "input": "{{x}}"})
    with pytest.raises(GraderRefused, match="2 things to settle") as refusal:
        grader_version_publish(actor=member, grader=grader)
    assert {problem.path for problem in refusal.value.problems} == {"operation", "input"}
    assert not GraderVersion.objects.exists()


def test_discard_goes_back_to_the_published_version(member, grader):
    with pytest.raises(Conflict):
        grader_draft_discard(actor=member, grader=grader)
    grader_version_publish(actor=member, grader=grader)
    grader_draft_save(actor=member, grader=grader, config={**EXACT, "operation": "ne"})
    assert grader_draft_discard(actor=member, grader=grader).draft["operation"] == "eq"


def test_compiled_version_grades(member, grader):
    version = grader_version_publish(actor=member, grader=grader)
    compiled = grader_compiled(version)
    assert compiled.grade({"r": "a"}, Sample(output_text="a")).reward == 1.0
    assert compiled.variables() == {"sample.output_text", "item.r"}


def test_header_values_are_stored_sealed_and_survive_an_edit(member):
    parts = {"type": "multi", "graders": {"own": ENDPOINT}, "calculate_output": "own"}
    grader = grader_create(actor=member, name="Own", config=parts)
    assert "s3cret" not in str(Grader.objects.get().draft)
    shown = shown_config(grader.draft)
    assert shown["graders"]["own"]["headers"]["Authorization"] == SHOWN
    grader_draft_save(actor=member, grader=grader, config={**shown, "calculate_output": "0.5 * own"})
    version = grader_version_publish(actor=member, grader=grader)
    assert "s3cret" not in str(version.config)
    assert grader_wire_config(version)["graders"]["own"]["headers"] == ENDPOINT["headers"]


def test_version_of_another_team_is_not_found(member, stranger, grader):
    version = grader_version_publish(actor=member, grader=grader)
    assert grader_version_get(team=member.team, public_id=version.public_id) == version
    with pytest.raises(NotFound):
        grader_version_get(team=stranger.team, public_id=version.public_id)


def test_list_of_twenty_asks_as_many_queries_as_ten(member, django_assert_max_num_queries):
    for number in range(20):
        row = grader_create(actor=member, name=f"Grader {number}", config=EXACT)
        grader_version_publish(actor=member, grader=row)
    with django_assert_max_num_queries(2):
        assert [row.versions.all()[0].number for row in grader_list(team=member.team)] == [1] * 20
