"""Starting, settling and cancelling evaluations."""

import json
from pathlib import Path

import pytest

from datasets.models import Item, LabelEntry, LabelTask
from jobs.evaluations import selectors
from jobs.evaluations.models import Evaluation
from jobs.evaluations.services import evaluation_cancel, evaluation_settle, evaluation_start, evaluations_settle
from jobs.rollouts.models import Rollout
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from tests.factories.studio import FrozenVersionFactory, evaluation_parts, ready_baseline_of, rollouts_end

MEDMCQ = Path(__file__).parents[2] / "data/cases/medmcq"


def test_evaluation_start_orders_rollouts_for_each_item(member):
    evaluation = evaluation_start(actor=member, samples_per_item=2, **evaluation_parts(member.team))
    assert (evaluation.number, evaluation.status) == (1, "queued")
    assert evaluation.batch.source == evaluation.public_id
    assert evaluation.batch.rollouts.count() == 12
    assert AuditEvent.objects.filter(verb="evaluation.started").count() == 1


def test_evaluation_start_numbers_count_within_the_team(member, stranger):
    parts = evaluation_parts(member.team)
    numbers = [evaluation_start(actor=member, **parts).number for _ in range(2)]
    foreign = evaluation_start(actor=stranger, **evaluation_parts(stranger.team))
    assert (numbers, foreign.number) == ([1, 2], 1)


def test_evaluation_start_with_max_items_draws_by_the_seed(member):
    parts = evaluation_parts(member.team)

    def keys(seed):
        evaluation = evaluation_start(actor=member, max_items=3, seed=seed, samples_per_item=1, **parts)
        return list(evaluation.batch.rollouts.order_by("id").values_list("group_key", flat=True))

    assert keys(1) == keys(1)
    assert len(set(map(tuple, [keys(n) for n in range(5)]))) > 1


def test_evaluation_start_by_a_viewer_is_refused(viewer):
    with pytest.raises(NotAllowed):
        evaluation_start(actor=viewer, **evaluation_parts(viewer.team))


def test_evaluation_start_with_a_foreign_dataset_finds_nothing(member, stranger):
    parts = evaluation_parts(member.team) | {"dataset_version": FrozenVersionFactory(team=stranger.team)}
    with pytest.raises(NotFound):
        evaluation_start(actor=member, **parts)
    assert not Evaluation.objects.exists()


def test_evaluation_start_on_a_draft_is_refused(member):
    parts = evaluation_parts(member.team)
    parts["dataset_version"].status = "draft"
    with pytest.raises(Conflict, match="Freeze"):
        evaluation_start(actor=member, **parts)


@pytest.mark.parametrize(
    "wrong", [{"samples_per_item": 0}, {"samples_per_item": 65}, {"max_items": 0}, {"split": "dev"}]
)
def test_evaluation_start_with_impossible_numbers_is_refused(member, wrong):
    with pytest.raises(UserError):
        evaluation_start(actor=member, **evaluation_parts(member.team), **wrong)


def test_evaluation_settle_waits_for_open_rollouts(member):
    evaluation = evaluation_start(actor=member, **evaluation_parts(member.team))
    assert not evaluation_settle(evaluation=evaluation)
    first = evaluation.batch.rollouts.first()
    Rollout.objects.filter(pk=first.pk).update(status="running")
    evaluation_settle(evaluation=evaluation)
    evaluation.refresh_from_db()
    assert (evaluation.status, evaluation.metrics) == ("running", {})


def test_evaluation_settle_twice_changes_nothing(member):
    evaluation = evaluation_start(actor=member, **evaluation_parts(member.team))
    rollouts_end(evaluation.batch, [1.0, 0.0])
    assert evaluation_settle(evaluation=evaluation)
    first = Evaluation.objects.values().get(pk=evaluation.pk)
    assert not evaluation_settle(evaluation=evaluation)
    assert Evaluation.objects.values().get(pk=evaluation.pk) == first
    assert first["status"] == "succeeded"
    assert first["metrics"]["pass_rate"] == 0.5
    assert first["readiness"]["lines"]


def test_evaluation_settle_without_any_grade_fails_with_the_reason(member):
    evaluation = evaluation_start(actor=member, **evaluation_parts(member.team))
    rollouts_end(evaluation.batch, [None])
    evaluations_settle()
    evaluation.refresh_from_db()
    assert evaluation.status == "failed"
    assert "tool failed: lookup answered 502" in evaluation.error


def test_evaluations_settle_goes_on_after_one_that_breaks(member, monkeypatch):
    parts = evaluation_parts(member.team)
    broken, sound = (evaluation_start(actor=member, **parts) for _ in range(2))
    for evaluation in (broken, sound):
        rollouts_end(evaluation.batch, [1.0, 0.0])
    real = selectors.batch_rows
    monkeypatch.setattr(selectors, "batch_rows", lambda b, **kw: 1 / 0 if b == broken.batch else real(b, **kw))
    assert evaluations_settle() == 1
    sound.refresh_from_db()
    assert sound.status == "succeeded"


def test_evaluation_cancel_keeps_what_ended(member):
    evaluation = evaluation_start(actor=member, **evaluation_parts(member.team))
    Rollout.objects.filter(pk=evaluation.batch.rollouts.first().pk).update(
        status="done", stop_reason="answered", reward=1.0, passed=True
    )
    evaluation_cancel(actor=member, evaluation=evaluation)
    assert evaluation.status == "cancelled"
    assert evaluation.metrics["rollouts"] == 1
    assert evaluation.batch.rollouts.filter(status="cancelled").count() == 23
    with pytest.raises(Conflict):
        evaluation_cancel(actor=member, evaluation=evaluation)


def test_readiness_blocks_a_grader_whose_field_no_row_has(member):
    """A published pair: the grader reads reference_answer, the rows hold only messages."""
    baseline = ready_baseline_of(member)
    version = FrozenVersionFactory(team=member.team, n_train=0, n_validation=0, n_test=0)
    for n, raw in enumerate((MEDMCQ / "medmcq_validation_40.jsonl").read_text().splitlines()):
        Item.objects.create(version=version, position=n, key=str(n), split="train", raw=raw, digest=str(n))
    baseline.dataset_version = version
    baseline.grader_version.config = json.loads((MEDMCQ / "medmcq_stringcheck_grader.json").read_text())
    verdict = selectors.readiness_of(baseline)
    fields = next(line for line in verdict["lines"] if line["key"] == "grader_fields")
    assert verdict["level"] == "block"
    assert fields["level"] == "block"
    assert "40 of 40 rows lack item.reference_answer" in fields["evidence"]
    assert fields["evidence"].endswith("The rows have: messages.")


def test_readiness_sees_a_missing_field_whose_name_is_quoted(member):
    baseline = ready_baseline_of(member, n_train=120, n_validation=20)
    config = {"type": "string_check", "name": "x", "operation": "eq", "input": "{{ sample.output_text }}"}
    baseline.grader_version.config = config | {"reference": '{{ item["Tweet text"] }}'}
    missing, _, _ = selectors.missing_fields(baseline)
    assert list(missing) == ['item["Tweet text"]']


def test_readiness_of_a_failed_evaluation_says_that_nothing_was_graded(member):
    baseline = ready_baseline_of(member, n_train=120, n_validation=20)
    baseline.status, baseline.metrics = "failed", {"rollouts": 80, "graded": 0}
    finished = next(line for line in selectors.readiness_of(baseline)["lines"] if line["key"] == "finished")
    assert (finished["level"], finished["measured"]) == ("block", "0 graded")


def test_readiness_of_a_sound_baseline_does_not_block(member):
    baseline = ready_baseline_of(member, n_train=120, n_validation=20)
    found = selectors.readiness_of(baseline)
    assert found["level"] == "warn", found["title"]


def test_evaluation_list_shows_no_foreign_rows(member, stranger):
    evaluation = evaluation_start(actor=stranger, **evaluation_parts(stranger.team))
    assert not selectors.evaluation_list(team=member.team).exists()
    with pytest.raises(NotFound):
        selectors.evaluation_get(team=member.team, public_id=evaluation.public_id)


def test_evaluation_settle_notes_the_tricks_that_pass_with_an_example(member):
    parts = evaluation_parts(member.team)
    parts["grader_version"].config |= {"operation": "like", "input": "{{sample.output_text}}"}
    parts["grader_version"].save()
    evaluation = evaluation_start(actor=member, samples_per_item=2, **parts)
    rollouts_end(evaluation.batch, [1.0, 0.0])
    evaluation_settle(evaluation=evaluation)
    gaming = evaluation.metrics["gaming"]
    assert "every number at once" in gaming["passed"]
    assert "refusal" not in " ".join(gaming["passed"])
    assert gaming["tried"] >= 6
    assert {example["trick"] for example in gaming["examples"]} >= {"numbers"}


def test_labels_of_experts_reach_the_verdict(member, expert):
    evaluation = ready_baseline_of(member)
    rollouts = list(evaluation.batch.rollouts.order_by("id"))[:8]
    field = {"name": "worth", "label": "Worth?", "kind": "score", "low": 0, "high": 1}
    task = LabelTask.objects.create(team=member.team, name="Judge", fields=[field])
    for n, rollout in enumerate(rollouts):
        result = {"worth": 1 if n < 6 else 0}
        LabelEntry.objects.create(task=task, position=n, subject=rollout.public_id, result=result, status="agreed")
    facts = selectors.readiness_facts(evaluation)
    agree = sum((rollout.reward >= 0.5) == (n < 6) for n, rollout in enumerate(rollouts)) / 8
    assert (facts.label_agreement, facts.labelled_rollouts) == (agree, 8)
    LabelEntry.objects.last().delete()
    assert selectors.readiness_facts(evaluation).label_agreement is None
