"""Reading the order: defaults, and refusals that name the part at fault."""

import json

import pytest

from jobs.backends.trl.spec import Plan, SpecError, items_read, plan_read, spec_read


def test_empty_plan_takes_the_defaults():
    assert plan_read({}) == Plan()
    assert plan_read({"max_steps": None}) == Plan()


def test_backend_extras_are_kept_apart():
    plan = plan_read({"use_vllm": True, "micro_batch": 16, "extras": {"bf16": True}})
    assert plan.extras == {"use_vllm": True, "micro_batch": 16, "bf16": True}


@pytest.mark.parametrize(
    "values, param",
    [
        ({"group_size": 1}, "plan.group_size"),
        ({"max_steps": 0}, "plan.max_steps"),
        ({"temperature": 0}, "plan.temperature"),
        ({"ungraded": "zero"}, "plan.ungraded"),
        ({"num_iterations": 2}, "plan.num_iterations"),
        ({"extras": {"learning_raet": 1}}, "plan.extras.learning_raet"),
    ],
)
def test_plan_that_cannot_work_is_refused(values, param):
    with pytest.raises(SpecError) as refusal:
        plan_read(values)
    assert refusal.value.param == param


def test_spec_of_another_version_is_refused(tmp_path):
    spec = {"spec_version": 2, "base_model": "x", "agent": {}, "grader": {}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(SpecError, match="version 2"):
        spec_read(tmp_path)


def test_spec_that_is_missing_or_broken_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"no spec\.json"):
        spec_read(tmp_path)
    (tmp_path / "spec.json").write_text("{}")
    with pytest.raises(SpecError, match="cannot be read"):
        spec_read(tmp_path)


def test_items_keep_their_order(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"key":"b","item":{}}\n\n{"key":"a","item":{"x":1}}\n')
    assert [row.key for row in items_read(tmp_path / "train.jsonl")] == ["b", "a"]
    assert items_read(tmp_path / "none.jsonl") == []
