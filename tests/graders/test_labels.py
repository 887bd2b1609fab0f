"""Labels of people as the measure of a grader."""

import pytest

from datasets.labelling.services import entry_claim, label_submit, task_add_subjects, task_create
from graders.labels import labelled_samples, questions, rollout_labels, says_the_same
from graders.samples import sample_from
from graders.services import grader_create
from jobs.rollouts.models import Rollout
from tests.factories.studio import ready_baseline_of

LIKE = {"type": "string_check", "operation": "like", "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}
SCORE = {"name": "worth", "label": "How good is it?", "kind": "score", "low": 0, "high": 4}
VERDICT = {
    "name": "verdict",
    "label": "Is it right?",
    "kind": "choice",
    "options": [{"value": value, "label": value, "key": ""} for value in ("wrong", "partly", "right")],
}
ANSWER = {"name": "answer", "label": "The right answer", "kind": "reference"}


def answered(expert, member, fields, values, **about):
    """A task whose entries an expert answered in order by `values`."""
    subjects = about.pop("subjects", ())
    task = task_create(actor=member, name="Judge", fields=fields, **about)
    rows = [{"subject": subject, "content": {"messages": [], "steps": [], "answer": ""}} for subject in subjects]
    task_add_subjects(actor=member, task=task, subjects=rows)
    for value in values:
        entry, _ = entry_claim(actor=expert, task=task)
        label_submit(actor=expert, entry=entry, values=value)
    return task


@pytest.fixture
def evaluation(member):
    """Eighteen rollouts on six items; the answers are right, wrong, wrong, again and again, and grow longer."""
    made = ready_baseline_of(member)
    for n, rollout in enumerate(made.batch.rollouts.order_by("id")):
        wanted = rollout.item.data["answer"]
        rollout.answer = (f"It is {wanted}." if n % 3 == 0 else "Nobody knows.") + " So it goes." * n
        rollout.save()
        rollout.steps.create(index=0, text=rollout.answer)
    return made


def ids(evaluation):
    return list(evaluation.batch.rollouts.order_by("id").values_list("public_id", flat=True))


def test_scores_and_choices_on_rollouts_become_labels(member, expert, evaluation):
    subjects = ids(evaluation)[:3]
    values = [{"worth": 4, "verdict": "right"}, {"worth": 1, "verdict": "partly"}, {"worth": 0, "verdict": "wrong"}]
    answered(expert, member, [SCORE, VERDICT], values, subjects=subjects)
    score, verdict = questions(team=member.team, version=evaluation.dataset_version)
    assert (score.title, score.count, verdict.likely_good) == ("Judge: How good is it?", 3, ["right"])

    def labels(question, **options):
        found = labelled_samples(team=member.team, version=evaluation.dataset_version, question=question, **options)
        return {one.id: one.label for one in found}

    assert labels(score) == dict(zip(subjects, [1.0, 0.25, 0.0], strict=True))
    assert labels(verdict) == dict(zip(subjects, [1.0, 0.0, 0.0], strict=True))
    assert labels(verdict, good=["right", "partly"]) == dict(zip(subjects, [1.0, 1.0, 0.0], strict=True))
    assert rollout_labels(team=member.team, rollouts=subjects) == dict(zip(subjects, [1.0, 0.125, 0.0], strict=True))


def test_right_answers_of_items_judge_their_rollouts(member, expert, evaluation):
    values = [{"answer": str(n)} for n in range(6)]
    answered(expert, member, [ANSWER], values, version=evaluation.dataset_version, split="test")
    (question,) = questions(team=member.team, version=evaluation.dataset_version)
    found = labelled_samples(team=member.team, version=evaluation.dataset_version, question=question)
    assert question.is_about_items
    assert len(found) == 18
    by_id = {one.id: one.label for one in found}
    assert [by_id[key] for key in ids(evaluation)][:6] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "answer,parsed,reference,same",
    [
        ("Germany", None, "germany ", True),
        ("It is taxed in Germany.", None, "Germany", True),
        ("It is 120.", None, "12", False),
        ("", None, "", False),
        ('{"answer": "Germany"}', {"answer": "Germany"}, "Germany", True),
        ('{"answer": "France", "note": "not Germany"}', {"answer": "France", "note": "not Germany"}, "Germany", False),
    ],
)
def test_says_the_same(answer, parsed, reference, same):
    sample = sample_from({"output_text": answer, "output_json": parsed})
    assert says_the_same(sample, "answer", reference) is same


def test_labels_of_another_team_are_not_found(member, expert, evaluation, stranger):
    answered(expert, member, [SCORE], [{"worth": 4}], subjects=ids(evaluation)[:1])
    assert questions(team=stranger.team) == []
    assert rollout_labels(team=stranger.team, rollouts=ids(evaluation)) == {}


def test_agreement_page_shows_figures_and_disagreements(member, expert, client_of, evaluation):
    subjects = ids(evaluation)
    right = [{"verdict": "right" if n % 3 == 0 or n == 4 else "wrong"} for n in range(18)]
    answered(expert, member, [VERDICT], right, subjects=subjects)
    grader = grader_create(actor=member, name="Exact", config=LIKE)
    client = client_of(member)
    address = f"/t/{member.team.slug}/graders/{grader.public_id}/agreement/"
    page = client.get(address, {"dataset": evaluation.dataset_version.public_id})
    found = page.context["calibration"]
    assert (found.count, found.agreement.value) == (18, pytest.approx(17 / 18))
    assert found.confusion == {(True, True): 6, (True, False): 0, (False, True): 1, (False, False): 11}
    assert [band.count for band in found.by_length] == [6, 6, 6]
    assert [row["pair"].id for row in page.context["disagreements"]] == [subjects[4]]
    text = page.content.decode()
    assert f"/rollouts/{subjects[4]}/" in text
    assert "Who passes what" in text
    again = client.get(address, {"good": ["wrong"], "dataset": evaluation.dataset_version.public_id})
    assert again.context["calibration"].agreement.value == pytest.approx(1 / 18)


def test_agreement_page_without_labels_or_without_rollouts(member, expert, client_of, evaluation):
    grader = grader_create(actor=member, name="Exact", config=LIKE)
    address = f"/t/{member.team.slug}/graders/{grader.public_id}/agreement/"
    assert "No labels yet" in client_of(member).get(address).content.decode()
    answered(expert, member, [SCORE], [{"worth": 4}], subjects=["roll-gone"])
    assert "No stored rollouts for these labels" in client_of(member).get(address).content.decode()
    Rollout.objects.all().delete()


def test_agreement_page_asks_before_it_pays(member, expert, client_of, evaluation):
    answered(expert, member, [SCORE], [{"worth": 4}], subjects=ids(evaluation)[:1])
    judged = {"type": "score_model", "model": "none", "input": [{"role": "user", "content": "x"}]}
    grader = grader_create(actor=member, name="Judge", config=judged)
    address = f"/t/{member.team.slug}/graders/{grader.public_id}/agreement/"
    assert "Compare, 1 calls" in client_of(member).get(address).content.decode()
    answer = client_of(member).post(address)
    assert "None of 1 labelled rollouts could be graded" in answer.content.decode()
    assert client_of(expert).post(address).status_code == 403
