"""The grader editor in a real browser: built by form alone, tested while typing, broken, mended, published, re-graded."""

import json
import re

import pytest

from datasets.models import Dataset, DatasetVersion, Item, LabelEntry, LabelTask
from graders.models import Grader, GraderVersion
from graders.services import grader_create, grader_draft_save, grader_version_publish
from jobs.agents.models import ModelEndpoint
from jobs.rollouts.models import RegradeRun, Rollout
from jobs.rollouts.regrade import regrade_run, regrade_start
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory, steps_for
from tests.fakes.server import HttpServer, Reply

QUESTION = "A Dutch adviser serves a German retailer. Where is the service taxed?"


@pytest.fixture
def version(team):
    made = DatasetVersion.objects.create(
        team=team, dataset=Dataset.objects.create(team=team, name="VAT questions", slug="vat"), number=7, item_count=4
    )
    for n in range(4):
        row = {
            "messages": [{"role": "user", "content": QUESTION}],
            "agreed_conclusion": "Germany",
            "facts": "The customer is a business in Germany.",
            "citations": ["VAT Directive, Article 44"],
            "payer": "the retailer",
        }
        Item.objects.create(version=made, position=n, key=f"021{n}", raw=json.dumps(row), digest=str(n))
    return made


@pytest.fixture
def judge(team, settings):
    """A judge that gives 1 with a reason; its address is opened as an operator would."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    mark = {"steps": [{"description": "compare", "conclusion": "Names Germany for the right reason."}], "result": 1}
    message = {"role": "assistant", "content": json.dumps(mark)}
    usage = {"prompt_tokens": 1800, "completion_tokens": 112, "total_tokens": 1912}

    def answer(request):
        return Reply.of({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})

    with HttpServer(answer) as server:
        ModelEndpoint.objects.create(
            team=team, name="judge", kind="openai", base_url=f"{server.url}/v1", model="gpt-5-mini"
        )
        yield server


def grader_url(grader, name=""):
    return f"/t/{grader.team.slug}/graders/{grader.public_id}/{name}"


@pytest.mark.django_db(transaction=True)
def test_multi_grader_is_built_by_form_tested_broken_mended_published_and_regraded(
    signed_in_page, member, version, judge, axe, picture
):
    page = signed_in_page(member)
    page.goto(f"/t/{member.team.slug}/graders/new/")
    picture(page, "graders-new", whole=True)
    page.get_by_label("Name", exact=True).fill("Conclusion and citations")
    page.get_by_role("button", name="Several parts").click()

    # Three parts, each added by its button.
    for kind in ("A model judges", "Set", "Exact text"):
        page.get_by_text("Add a part").click()
        page.get_by_role("button", name=kind, exact=True).click()
    parts = page.locator("details.grader-part")
    assert parts.count() == 3
    for place, (key, name) in enumerate([("conclusion", "Conclusion"), ("citations", "Citations"), ("payer", "Payer")]):
        open_part(parts.nth(place))
        parts.nth(place).get_by_label("Name in the formula").fill(key)
        parts.nth(place).get_by_label("Name for people").fill(name)
    judge_part, set_part, exact_part = (parts.nth(place) for place in range(3))
    judge_part.get_by_label("Judge", exact=True).fill("judge")
    rubric = judge_part.locator("textarea").first
    rubric.fill("Compare the answer with the agreed conclusion. Give 1 if country and reason agree. ")
    judge_part.locator(".grader-message").first.get_by_role("button", name="item: agreed conclusion").click()
    assert "{{ item.agreed_conclusion }}" in rubric.input_value()
    judge_part.locator("textarea").nth(1).fill("Answer: {{ sample.output_text }}")
    set_part.get_by_label("Reference").fill("{{ item.citations }}")
    exact_part.get_by_label("Comparison").select_option("like")
    exact_part.get_by_label("Reference").fill("{{ item.payer }}")
    page.get_by_label("Formula", exact=True).last.fill("min(1, 0.6 * conclusion + 0.3 * citations + 0.1 * payer)")
    page.get_by_label("Pass mark").fill("0.75")
    page.get_by_role("button", name="Save draft").last.click()
    page.get_by_text("Draft saved.").wait_for()
    assert (
        "six tenths Conclusion, three tenths Citations, one tenth Payer" in page.locator("#formula-words").inner_text()
    )
    assert "Nothing to settle" in page.locator("#to-settle").inner_text()

    # Parts change places by their grip; the formula that somebody wrote stays.
    grips = page.locator("[data-part]")
    with page.expect_navigation():
        grips.nth(2).drag_to(grips.nth(0))
    assert page.locator(".grader-part > summary b").all_inner_texts() == ["Payer", "Conclusion", "Citations"]
    open_part(page.locator("details.grader-part").first)
    page.locator("details.grader-part").first.get_by_role("button", name="Move down").click()
    page.locator("details.grader-part").nth(1).locator("summary b", has_text="Payer").wait_for()
    page.locator("details.grader-part").nth(1).locator("summary").first.click()
    page.locator("details.grader-part").nth(1).get_by_role("button", name="Move down").click()
    page.locator("details.grader-part").nth(2).locator("summary b", has_text="Payer").wait_for()
    assert "min(1, 0.6 * conclusion" in page.get_by_label("Formula", exact=True).last.input_value()

    # The live test.
    page.get_by_label("Answer", exact=True).last.fill("VAT Directive, Article 44; the retailer pays")
    page.get_by_role("button", name="Test this answer").click()
    page.locator("#test-result .figure-big").wait_for()
    shown = page.locator("#live-test").inner_text()
    assert "0.90" in shown
    assert "Names Germany for the right reason." in shown
    assert "1,912 tokens" in shown
    assert "min(1, 0.6 * 1.00 + 0.3 * 0.67 + 0.1 * 1.00) = 0.90" in shown
    picture(page, "graders-editor", whole=True)
    assert axe(page) == []

    # Broken while typing: the fix stands at the field before anything is saved.
    open_part(exact_part)
    exact_part.get_by_label("Reference").fill("{{ item.payr }}")
    foot = exact_part.locator(".field", has=page.get_by_label("Reference")).locator(".field-error")
    foot.wait_for()
    assert "Did you mean payer?" in foot.inner_text()
    assert "1 thing to settle" in page.locator("#to-settle").inner_text()
    exact_part.get_by_text("1 to settle").wait_for()
    assert page.get_by_role("button", name="Publish version 1").first.is_disabled()
    picture(page, "graders-broken")
    exact_part.get_by_label("Reference").fill("{{ item.payer }}")
    page.locator("#to-settle", has_text="Nothing to settle").wait_for()

    page.get_by_role("button", name="Publish version 1").click()
    page.get_by_label("What changed").fill("first")
    page.get_by_role("dialog").get_by_role("button", name="Publish version 1").click()
    page.get_by_role("heading", name="Version 1", exact=True).wait_for()
    published = GraderVersion.objects.get()
    assert list(published.config["graders"]) == ["conclusion", "citations", "payer"]
    assert published.pass_threshold == 0.75

    # Re-graded: rollouts that an earlier grader gave 0.2 stand beside what this version gives.
    evaluation = stored_rollouts(version)
    page.reload()
    page.get_by_role("link", name="Re-grade stored rollouts").click()
    page.get_by_label(re.compile("^Evaluation of base")).check()
    page.get_by_label("Rollouts at most").fill("3")
    picture(page, "regrade-new")
    assert axe(page) == []
    page.get_by_role("button", name="Re-grade them").click()
    page.locator("#regrade[hx-trigger]").wait_for()
    run = RegradeRun.objects.get()
    assert regrade_run(run_id=run.pk, seconds=30) == 3
    page.get_by_role("heading", name="Rewards that changed most").wait_for()
    shown = page.locator("#regrade").inner_text()
    assert "3 of 3 rollouts graded again" in shown
    assert "+0.70" in shown  # from 0.20 to 0.90
    picture(page, "regrade-done", whole=True)
    assert axe(page) == []
    assert page.get_by_role("button", name="Adopt for the evaluation").count() == 0  # only a part was graded
    page.locator("#regrade table a").first.click()
    page.wait_for_url(re.compile("/rollouts/roll-"))
    assert Rollout.objects.filter(batch=evaluation, reward=0.2).count() == 4


def stored_rollouts(version):
    """Four finished rollouts of the dataset, as an earlier grader left them."""
    batch = RolloutBatchFactory(team=version.team, dataset_version=version)
    for item in version.items.order_by("position"):
        rollout = RolloutFactory(
            batch=batch,
            item=item,
            group_key=item.key,
            reward=0.2,
            answer="VAT Directive, Article 44; the retailer pays",
        )
        steps_for(rollout, ["VAT Directive, Article 44; the retailer pays"])
    return batch


def open_part(part):
    if part.get_attribute("open") is None:
        part.locator("summary").first.click()


EXACT = {"type": "string_check", "operation": "like", "input": "{{sample.output_text}}", "reference": "{{item.payer}}"}
MULTI = {
    "type": "multi",
    "graders": {
        "payer": {**EXACT, "name": "Payer"},
        "broken": {**EXACT, "name": "Broken", "reference": "{{ item.payr }}"},
    },
    "calculate_output": "0.5 * payer + 0.5 * broken",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width,theme", [("wide", "dark"), ("phone", "light")])
@pytest.mark.parametrize("name", ["", "json/", "set/?source=field:payer", "gaming/", "versions/", "agreement/"])
def test_pages_are_accessible(signed_in_page, member, version, axe, picture, name, width, theme):
    grader = grader_create(actor=member, name="Payer", config=EXACT)
    grader_version_publish(actor=member, grader=grader)
    page = signed_in_page(member, width=width, theme=theme)
    page.goto(grader_url(grader, name))
    picture(page, f"graders-{name.split('/')[0] or 'detail'}-{width}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.django_db(transaction=True)
def test_editor_with_problems_is_accessible(signed_in_page, member, version, axe, picture):
    grader = grader_create(actor=member, name="Broken", config=MULTI)
    page = signed_in_page(member)
    page.goto(grader_url(grader))
    picture(page, "graders-problems", whole=True)
    assert axe(page) == []
    page.goto(f"/t/{member.team.slug}/graders/")
    picture(page, "graders-list")
    assert axe(page) == []


@pytest.mark.django_db(transaction=True)
def test_editor_works_without_a_script(signed_in_page, member, version):
    grader = grader_create(actor=member, name="Plain", config=EXACT)
    page = signed_in_page(member)
    page.context.close()
    page = signed_in_page(member, script=False)
    page.goto(grader_url(grader))
    page.get_by_label("Answer", exact=True).last.fill("the retailer")
    page.get_by_role("button", name="Test this answer").click()
    assert "1.00" in page.locator("#test-result").inner_text()
    page.get_by_label("Comparison").select_option("eq")
    page.get_by_role("button", name="Save draft").last.click()
    assert Grader.objects.get().draft["operation"] == "eq"


PICTURE = {
    "type": "multi",
    "graders": {
        "country": {**EXACT, "name": "Country", "reference": "{{ item.agreed_conclusion }}"},
        "citations": {
            "type": "set_f1", "name": "Citations", "input": "{{ sample.output_text }}",
            "reference": "{{ item.citations }}", "measure": "recall",
        },
        "payer": {**EXACT, "name": "Payer"},
    },
    "calculate_output": "min(1, 0.6 * country + 0.3 * citations + 0.1 * payer)",
    "pass_threshold": 0.75,
}  # fmt: skip
SAID = ("Germany", "Germany; the retailer pays", "France", "VAT Directive, Article 44")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width,theme", [("wide", "light"), ("wide", "dark"), ("phone", "light"), ("phone", "dark")])
def test_draft_stands_against_the_published_version(signed_in_page, member, version, axe, picture, width, theme):
    """Stored rollouts beside the form: two lines of dots, what moved, and where to read it."""
    batch = RolloutBatchFactory(team=version.team, dataset_version=version)
    for n, item in enumerate(version.items.order_by("position")):
        for index, answer in enumerate(SAID):
            rollout = RolloutFactory(
                batch=batch, item=item, group_key=item.key, answer=answer, sample_index=4 * n + index
            )
            steps_for(rollout, [answer])
    grader = grader_create(actor=member, name="Conclusion and citations", config=PICTURE)
    grader_version_publish(actor=member, grader=grader)
    draft = {**PICTURE, "calculate_output": "min(1, 0.4 * country + 0.3 * citations + 0.3 * payer)"}
    grader_draft_save(actor=member, grader=grader, config=draft)
    page = signed_in_page(member, width=width, theme=theme)
    page.goto(grader_url(grader))
    box = page.locator("#on-samples")
    box.get_by_text("moved by more than 0.1").wait_for()
    shown = box.inner_text()
    assert "On 16 samples" in shown
    assert "Version 1" in shown
    assert "4 rewards moved" in shown
    picture(page, f"graders-samples-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    box.get_by_role("link", name="Read them").click()
    page.get_by_role("heading", name="16 samples").wait_for()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width,theme", [("wide", "light"), ("phone", "dark")])
def test_agreement_and_regraded_rollouts_are_read_on_every_screen(
    signed_in_page, member, version, axe, picture, width, theme
):
    batch = RolloutBatchFactory(team=version.team, dataset_version=version, pass_threshold=0.75)
    task = LabelTask.objects.create(team=version.team, name="Clerk's answers", fields=[WORTH])
    for n, item in enumerate(version.items.order_by("position")):
        for index, answer in enumerate(SAID):
            rollout = RolloutFactory(
                batch=batch,
                item=item,
                group_key=item.key,
                answer=answer,
                sample_index=4 * n + index,
                reward=0.1 * index,
            )
            steps_for(rollout, [answer])
            LabelEntry.objects.create(
                task=task, position=4 * n + index, subject=rollout.public_id, status="agreed",
                result={"worth": (4, 4, 0, 1 + n % 2)[index]},
            )  # fmt: skip
    grader = grader_create(actor=member, name="Conclusion and citations", config=PICTURE)
    published = grader_version_publish(actor=member, grader=grader)
    run = regrade_start(actor=member, grader_version=published, batches=[batch])
    regrade_run(run_id=run.pk, seconds=30)
    page = signed_in_page(member, width=width, theme=theme)
    for name, address, sign in (
        ("agreement", grader_url(grader, "agreement/"), "Who passes what"),
        ("regrade", f"/t/{member.team.slug}/regrades/{run.public_id}/", "Rewards that changed most"),
        ("regrade-new", f"/t/{member.team.slug}/regrades/new/{published.public_id}/", "Re-grade them"),
        ("regrade-panel", grader_url(grader, "versions/"), "16 of 16"),
        ("ask", f"/t/{member.team.slug}/rollouts/ask/", "Queue them"),
    ):
        page.goto(address)
        page.get_by_text(sign).first.wait_for()
        page.wait_for_timeout(300)
        picture(page, f"{name}-{width}-{theme}", whole=True)
        assert axe(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name


WORTH = {"name": "worth", "label": "How good is the answer?", "kind": "score", "low": 0, "high": 4}
