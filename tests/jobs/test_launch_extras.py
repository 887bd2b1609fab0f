"""What a launch form or a request may hold and no database could keep: refused with its place, never an error of ours."""

import pytest

from jobs import demonstrations, drafts
from jobs.rollouts.filters import range_text, read_range
from jobs.selectors import job_get
from rftstudio.core.errors import NotFound, UserError
from tests.jobs.test_drafts import at, filled, new_form

pytestmark = pytest.mark.django_db

UNKEPT = [
    '{"a": NaN}',
    '{"a": 1e999}',
    r'{"a": "\u0000"}',
    r'{"a": "\ud800"}',
    '{"a": ' + "9" * 5000 + "}",
    "[" * 9999,
    '{"a":' * 400 + "1" + "}" * 400,
]


@pytest.mark.parametrize("extras", UNKEPT, ids=range(len(UNKEPT)))
@pytest.mark.parametrize("then", ["launch", "price"])
def test_extras_that_cannot_be_kept_are_refused_at_their_field(client_of, member, ready_baseline, extras, then):
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, extras=extras, then=then, read_warnings="on")
    answer = client.post(url, form)
    assert answer.status_code == 422
    assert "extras" in answer.context["form"].errors


@pytest.mark.parametrize("extras", UNKEPT, ids=range(len(UNKEPT)))
def test_draft_with_such_extras_opens_again(client_of, member, ready_baseline, extras):
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, extras=extras, then="save")
    opened = client.get(client.post(url, form)["Location"])
    assert opened.status_code == 200
    assert filled(opened)["extras"] == extras


@pytest.mark.parametrize("least", [10**400, float("inf"), float("nan"), True, "0.5"])
def test_least_reward_that_is_no_number_is_refused(ready_baseline, least):
    with pytest.raises(UserError, match="must be a number"):
        demonstrations.choice_read({"from": "rollouts", "of": "x", "least_reward": least}, baseline=ready_baseline)


def test_nul_in_an_id_or_a_key_finds_nothing(client_of, member, ready_baseline):
    with pytest.raises(NotFound):
        job_get(team=member.team, public_id="ftjob-\x00")
    client = client_of(member)
    assert client.get(at("job-new", member.team, query="?clone=%00")).status_code == 404
    assert drafts.draft_find(team=member.team, launch_key="\x00") is None
    with pytest.raises(UserError, match="NUL"):
        drafts.draft_save(actor=member, baseline=ready_baseline, values={"a\x00": "b"})


@pytest.mark.parametrize("ends", [(1e-16, 0.1), (-0.6 + 6 * 0.1, 0.1), (-1e-5, 0.0625)])
def test_range_with_a_tiny_end_is_read_as_it_was_written(ends):
    low, high = read_range(range_text(ends))
    assert (low, high) == pytest.approx(ends, abs=1e-9)
