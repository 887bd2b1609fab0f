"""The table of statuses, its words and its drawing."""

import pytest
from django.core.management import call_command

from jobs.models import Job
from jobs.states import ACTIVE, AT_WORK, ENDED, FOLLOWS, WORDS, can_follow, may_precede

Status = Job.Status


def test_every_status_has_a_row_and_words():
    assert set(FOLLOWS) == set(WORDS) == set(Status)
    assert all(words.title and words.next for words in WORDS.values())


def test_every_status_can_be_reached_and_left_or_has_ended():
    reached = {Status.VALIDATING} | {after for follows in FOLLOWS.values() for after in follows}
    assert reached == set(Status)
    assert {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED} == ENDED
    assert set(Status) - ENDED - {Status.PAUSED} == ACTIVE
    assert AT_WORK < ACTIVE


@pytest.mark.parametrize(
    "before, after, can",
    [
        (Status.QUEUED, Status.RUNNING, True),
        (Status.PAUSED, Status.QUEUED, True),
        (Status.CANCELLING, Status.SUCCEEDED, True),
        (Status.PAUSED, Status.RUNNING, False),
        (Status.SUCCEEDED, Status.RUNNING, False),
        (Status.CANCELLED, Status.QUEUED, False),
        (Status.CANCELLING, Status.RUNNING, False),
    ],
)
def test_can_follow(before, after, can):
    assert can_follow(before, after) is can
    assert (before in may_precede(after)) is can


def test_documentation_shows_the_table_as_it_is():
    call_command("job_diagram", check=True)
