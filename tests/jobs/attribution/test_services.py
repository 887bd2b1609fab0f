"""Stored credit: what is written, how often, for whom."""

import math

import pytest

from jobs.attribution.models import RolloutCredit
from jobs.attribution.selectors import credit_for, credits_of
from jobs.attribution.services import attribution_compute, source_credit
from jobs.attribution.tasks import attribution_compute as task
from rftstudio.core.errors import UserError
from tests.factories.rollouts import RolloutBatchFactory, customs_group

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(team):
    return customs_group(RolloutBatchFactory(team=team))


def test_attribution_compute_stores_credits_that_sum(group):
    counts = attribution_compute(rollouts=group[0].batch)
    assert counts["divergence"] == 7
    assert counts["returns_to_go"] == 0
    for rollout in group[:7]:
        for method in ("uniform", "divergence", "anchor_state", "prefix_value"):
            credit = credit_for(rollout, method)
            assert abs(math.fsum(credit.credits) - (rollout.reward - credit.baseline)) <= 1e-9
            assert len(credit.credits) == rollout.n_steps
    assert credits_of(group[7]) == {}


def test_attribution_compute_twice_stores_the_same(group):
    attribution_compute(rollouts=group[0].batch)
    before = list(RolloutCredit.objects.order_by("id").values("id", "rollout_id", "method", "credits"))
    task(group[0].batch_id)
    assert list(RolloutCredit.objects.order_by("id").values("id", "rollout_id", "method", "credits")) == before


def test_attribution_compute_of_one_rollout_uses_its_whole_group(group):
    attribution_compute(rollouts=group[:1], methods=["divergence"])
    alone = credit_for(group[0], "divergence").credits
    attribution_compute(rollouts=group[0].batch, methods=["divergence"])
    assert credit_for(group[0], "divergence").credits == alone


def test_attribution_compute_after_a_reward_was_withdrawn_forgets_its_credit(group):
    attribution_compute(rollouts=group[0].batch, methods=["uniform"])
    group[0].reward = None
    group[0].save()
    attribution_compute(rollouts=group[0].batch, methods=["uniform"])
    assert credit_for(group[0], "uniform") is None


def test_attribution_compute_of_another_batch_is_apart(group, team):
    other = customs_group(RolloutBatchFactory(team=team))
    attribution_compute(rollouts=group[0].batch)
    assert credits_of(other[0]) == {}


def test_attribution_compute_with_an_unknown_method_is_refused(group):
    with pytest.raises(UserError, match="no method named magic"):
        attribution_compute(rollouts=group, methods=["magic"])


def test_attribution_compute_asks_the_same_number_of_queries_for_more_groups(team, django_assert_max_num_queries):
    batch = RolloutBatchFactory(team=team)
    for number in range(6):
        customs_group(batch, key=f"item-{number}")
    with django_assert_max_num_queries(40):
        attribution_compute(rollouts=batch)


def test_source_credit_is_computed_at_once_while_the_broker_is_away(
    member, team, broker_away, django_capture_on_commit_callbacks
):
    broker_away(task)
    made = customs_group(RolloutBatchFactory(team=team, source="evalrun_1"))
    with django_capture_on_commit_callbacks(execute=True):
        assert source_credit(actor=member, source="evalrun_1") == 1
    assert credit_for(made[0], "divergence") is not None
