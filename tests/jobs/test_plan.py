"""The plan: defaults, limits and what follows from it."""

import pytest

from jobs.plan import AUTO, FIELDS, Ground, plan_derive, plan_fill, trainer_plan
from rftstudio.core.errors import UserError

TINY = Ground(train_items=400, validation_items=48, weights_bytes=750_000)


def test_plan_fill_of_nothing_gives_a_number_for_every_field():
    plan = plan_fill(None, ground=TINY)
    assert set(FIELDS) <= set(plan)
    assert AUTO not in plan.values()
    assert (plan["max_steps"], plan["learning_rate"], plan["batch_size"]) == (50, 6e-4, 8)


@pytest.mark.parametrize("value", [None, "", AUTO])
def test_plan_fill_takes_auto_and_empty_as_left_out(value):
    assert plan_fill({"batch_size": value}, ground=TINY)["batch_size"] == 8


def test_plan_fill_counts_steps_from_epochs_and_epochs_from_steps():
    assert plan_fill({"n_epochs": 3, "batch_size": 16}, ground=TINY)["max_steps"] == 75
    assert plan_fill({"max_steps": 80}, ground=TINY)["n_epochs"] == 2


def test_plan_fill_scales_by_the_multipliers():
    plan = plan_fill({"compute_multiplier": 2, "learning_rate_multiplier": 0.5}, ground=TINY)
    assert (plan["group_size"], plan["learning_rate"]) == (16, 3e-4)


@pytest.mark.parametrize(
    "size, lora, rate", [(10**6, None, 6e-4), (10**9, None, 1e-6), (10**9, 16, 1e-5), (None, None, 1e-6)]
)
def test_plan_fill_chooses_the_learning_rate_by_the_size_of_the_model(size, lora, rate):
    ground = Ground(train_items=100, weights_bytes=size)
    assert plan_fill({"lora_r": lora}, ground=ground)["learning_rate"] == rate


def test_plan_fill_of_a_small_split_lowers_the_batch():
    plan = plan_fill({}, ground=Ground(train_items=5))
    assert (plan["batch_size"], plan["max_steps"]) == (5, 1)


def test_plan_fill_of_more_items_than_there_are_is_refused():
    with pytest.raises(UserError, match="train split has 5"):
        plan_fill({"batch_size": 8}, ground=Ground(train_items=5))


def test_trainer_plan_holds_what_the_spec_names():
    plan = trainer_plan(plan_fill({"lora": {"r": 8}, "extras": {"use_vllm": True}}, ground=TINY))
    assert plan["lora"] == {"r": 8, "alpha": 16.0}
    assert plan["extras"] == {"use_vllm": True}
    assert trainer_plan(plan_fill({}, ground=TINY))["lora"] is None


def test_plan_derive_shows_its_sums():
    found = plan_derive(plan_fill({"n_epochs": 2, "batch_size": 16}, ground=TINY), ground=TINY)
    assert found.formula == "400 ÷ 16 × 2 = 50"
    assert found.train_rollouts == 50 * 16 * 8
    assert found.validation_rollouts == 5 * 48 * 2
    assert found.formulas["train"] == "50 × 16 × 8"
