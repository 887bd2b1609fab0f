"""Base against tuned in a real browser: by keys alone, while it waits, when a model's server is away, and without items."""

import pytest

from datasets.models import Item
from jobs.models import Checkpoint, Job
from jobs.playground import PREFIX
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.services import job_launch
from tests.factories.rollouts import call, steps_for
from tests.factories.studio import ModelEndpointFactory, ready_baseline_of, rollouts_end

AWAY = "The model could not be asked: no connection to 127.0.0.1."


@pytest.fixture
def checkpoint(owner):
    """Served already, so that trying it copies nothing."""
    job = job_launch(actor=owner, baseline=ready_baseline_of(owner), plan={"max_steps": 4}, name="first try")
    Job.objects.filter(pk=job.pk).update(status="succeeded")
    model = ModelEndpointFactory(team=owner.team, name="Job 1, train step 4")
    return Checkpoint.objects.create(team=owner.team, job=job, step_number=4, path="/x", model=model)


def end_both() -> None:
    """What the workers do meanwhile: the base's server is away, the tuned one calls a tool and answers."""
    base, tuned = RolloutBatch.objects.filter(source__startswith=PREFIX).order_by("id")
    rollouts_end(base, [None])
    Rollout.objects.filter(batch=base).update(stop_reason="model_failed", error=AWAY)
    rollouts_end(tuned, [1.0])
    steps_for(tuned.rollouts.get(), [[call("lookup", '{"good": "paper"}', "12")], "12"])


@pytest.mark.parametrize("width, theme", [("wide", "light"), ("phone", "dark")])
def test_playground_by_keys_alone(signed_in_page, owner, checkpoint, axe, picture, width, theme):
    page = signed_in_page(owner, width=width, theme=theme)
    page.goto(f"/t/duty-desk/checkpoints/{checkpoint.public_id}/try/")
    page.get_by_text("Test item 1 of").wait_for()
    page.keyboard.press("n")
    page.get_by_text("Test item 2 of").wait_for()
    picture(page, f"playground-{width}-{theme}", whole=True)
    assert axe(page) == []
    page.get_by_role("button", name="Let both try it").focus()
    page.keyboard.press("Enter")
    page.get_by_text("It is trying").first.wait_for()
    assert axe(page) == []
    end_both()
    page.get_by_text(AWAY).wait_for()
    page.get_by_text("pass", exact=True).wait_for()
    assert page.get_by_text("It is trying").count() == 0
    picture(page, f"playground-tried-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_playground_says_why_there_is_nothing_to_try(signed_in_page, owner, checkpoint, axe, picture):
    page = signed_in_page(owner)
    Checkpoint.objects.update(model=None)
    page.goto(f"/t/duty-desk/checkpoints/{checkpoint.public_id}/try/")
    page.get_by_text("The weights of train step 4 are no longer kept").wait_for()
    assert page.get_by_role("button", name="Let both try it").count() == 0
    assert axe(page) == []
    Item.objects.update(split="train")
    page.reload()
    page.get_by_text("This dataset holds no items out").wait_for()
    picture(page, "playground-empty")
    assert axe(page) == []
