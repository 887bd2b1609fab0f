"""Rollouts in a real browser: the walk by keys alone, three widths, two themes, very long ones."""

import time

import pytest

from jobs.attribution.models import StepMark
from jobs.attribution.services import attribution_compute
from jobs.rollouts.keeping import saved_view_save
from jobs.rollouts.models import LargeResult, MaskRule, Step
from tests.factories.agents import ModelEndpointFactory
from tests.factories.rollouts import RolloutBatchFactory, call, customs_group

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def group(team):
    batch = RolloutBatchFactory(team=team, source="evalrun_1", policy_label="base")
    made = customs_group(batch)
    for number in range(2, 5):
        customs_group(batch, key=f"item-{number}")
    return made


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    "width, theme", [("wide", "light"), ("wide", "dark"), ("middle", "light"), ("phone", "dark"), ("phone", "light")]
)
def test_rollout_pages_have_no_faults_and_fit(signed_in_page, member, group, axe, picture, width, theme):
    page = signed_in_page(member, width=width, theme=theme)
    home = f"/t/{member.team.slug}/rollouts/"
    addresses = {
        "rollouts": home,
        "rollouts-filtered": f"{home}?reward=0-0.5&tool=calc&odd=1",
        "rollouts-one-by-one": f"{home}?by=rollout",
        "rollouts-none": f"{home}?item=nothing",
        "rollout": f"{home}{group[3].public_id}/",
        "rollout-method": f"{home}{group[2].public_id}/?credit=anchor_state&step=3",
        "rollout-ungraded": f"{home}{group[7].public_id}/",
        "credit-methods": f"/t/{member.team.slug}/credit-methods/",
        "credit-of-a-source": f"/t/{member.team.slug}/credit/evalrun_1/",
        "import": f"{home}import/",
        "masking": f"/t/{member.team.slug}/masking/",
    }
    attribution_compute(rollouts=group[0].batch)
    saved_view_save(actor=member, name="Failed look-ups", query="tool=lookup&error=1")
    MaskRule.objects.create(team=member.team, kind="email", created_by=member.user)
    ModelEndpointFactory(team=member.team, name="Judge")
    for name, address in addresses.items():
        page.goto(address)
        if name == "rollouts-filtered":
            page.locator("[data-key=f]").click()
        picture(page, f"{name}-{width}-{theme}", whole=True)
        assert axe(page) == [], name
        assert fits(page), name


def test_rollout_is_read_by_keys_alone(signed_in_page, member, group):
    page = signed_in_page(member)
    page.goto(f"/t/{member.team.slug}/rollouts/{group[3].public_id}/?credit=divergence")
    chosen = page.locator(".walk-row.is-selected")
    assert chosen.get_attribute("id") == "step-2"
    page.keyboard.press("j")
    assert chosen.get_attribute("id") == "step-3"
    page.keyboard.press("Enter")
    page.locator("#step-3 .walk-detail").wait_for()
    assert "step=3" in page.url
    page.keyboard.press("3")
    page.locator("#step-3 [aria-pressed=true]").wait_for()
    assert StepMark.objects.get().mark == -1
    page.keyboard.press("c")
    page.wait_for_url("**beside=**")
    page.keyboard.press("m")
    page.wait_for_url("**credit=anchor_state**")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Rollout 5 of 8").wait_for()


def test_rollout_on_a_phone_answers_before_it_offers_choices(signed_in_page, member, group):
    page = signed_in_page(member, width="phone")
    page.goto(f"/t/{member.team.slug}/rollouts/{group[2].public_id}/?credit=divergence&step=2")

    def top(selector: str) -> float:
        return page.locator(selector).first.bounding_box()["y"]

    assert top(".walk-verdict") < 844 - 56 - 48  # in the first screen, above the bottom bar, a line of it at least
    for choice in (".method-tab", "[data-key=c]", "[data-key=l]", ".rollout-head .facts", "kbd"):
        assert not page.locator(f"main {choice}").first.is_visible(), choice
    assert top("#step-2 .fall") < top("#step-2 .why") < top("#step-2 .quote") < top("#step-2 .marks")
    assert page.locator("#step-2 .step-failed").is_visible()
    for owner in page.locator(".walk-side:visible").all():
        assert "ollout" in owner.locator(".side-owner").inner_text()
    assert top(".methods") > top("#step-2")
    page.locator(".methods summary").first.click()
    page.get_by_role("link", name="Same situation").click()
    page.wait_for_url("**credit=anchor_state**")


def test_rollout_says_the_deciding_step_without_a_script(signed_in_page, member, group):
    page = signed_in_page(member, script=False)
    page.goto(f"/t/{member.team.slug}/rollouts/{group[3].public_id}/?credit=divergence")
    assert "Step 2" in page.locator(".walk-verdict").inner_text()
    page.get_by_role("link", name="Step 2").click()
    assert page.locator("#step-2 .why").is_visible()


def test_histogram_filters_and_the_drawer_keeps_the_place(signed_in_page, member, group):
    page = signed_in_page(member)
    page.goto(f"/t/{member.team.slug}/rollouts/")
    page.get_by_role("link", name="Reward 0.9375 to 1: 8 rollouts").click()
    page.wait_for_url("**reward=0.9375-1**")
    page.get_by_role("heading", name="8 rollouts").wait_for()
    page.locator("tr.group td.name a").nth(1).click()
    page.locator("#rollouts tbody").nth(1).locator("tr.inner").first.wait_for()
    while not page.locator("tr.inner.is-selected").count():
        page.keyboard.press("j")
    page.keyboard.press("Space")  # a click opens the page itself
    page.get_by_text("See which step decided").wait_for()
    assert "peek=roll-" in page.url
    page.keyboard.press("Escape")
    page.wait_for_function("!location.search.includes('peek')")


def test_five_thousand_steps_and_twenty_megabytes_stay_usable(signed_in_page, member, team):
    turns = [[call("look", f'{{"n": {n}}}', f"fact {n} of many")] for n in range(4999)]
    made = customs_group(RolloutBatchFactory(team=team), tries=[(1.0, [*turns, "yes"]), (0.0, [*turns[:2500], "no"])])
    step = Step.objects.get(rollout=made[0], index=1)
    text = "A line of a very long result.\n" * 700_000
    step.tool_calls[0] |= {"result": text[:2000], "result_bytes": len(text), "result_digest": "d"}
    step.save()
    LargeResult.objects.create(step=step, call=0, text=text)
    page = signed_in_page(member)
    address = f"/t/{team.slug}/rollouts/{made[0].public_id}/?credit=divergence"
    page.goto(address)  # computes the credit once
    start = time.monotonic()
    page.goto(address + "&step=2")
    page.locator("#step-2 .walk-detail").wait_for()
    assert time.monotonic() - start < 10
    assert len(page.content()) < 1_000_000
    page.get_by_role("link", name="Whole result, 21.0 MB").click()
    page.get_by_text("Show more of 21.0 MB").wait_for()
    page.get_by_role("link", name="4,801–5,000").click()
    page.locator("#step-5000").wait_for(state="attached")
