"""Pages of costs in a real browser: looks, keys, and the way of one job's money."""

import pytest
from django.urls import reverse

from tests.usage.world import month_of_spend

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def asked(owner, member):
    return month_of_spend(owner, member)


@pytest.mark.parametrize(("width", "theme"), [("wide", "light"), ("wide", "dark"), ("phone", "light")])
def test_cost_pages_look_right_and_are_accessible(signed_in_page, axe, picture, team, owner, asked, width, theme):
    page = signed_in_page(owner, width=width, theme=theme)
    for name in ("cost-list", "ledger-list", "quota-list", "price-list"):
        page.goto(reverse(f"usage:{name}", args=[team.slug]))
        if name == "cost-list":
            page.wait_for_selector("#spend-by-day .main-svg")
        picture(page, f"{name}-{width}-{theme}")
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_spend_is_regrouped_in_place_and_a_bar_opens_its_lines(signed_in_page, team, owner, asked):
    page = signed_in_page(owner)
    page.goto(reverse("usage:cost-list", args=[team.slug]))
    page.wait_for_selector("#spend-by-day .main-svg")
    page.get_by_role("link", name="by job").click()
    page.wait_for_selector("#cost-spend td >> text=Evaluation 19")
    page.locator("#cost-spend td a", has_text="Job 7").click()
    page.wait_for_url("**/ledger/**")
    assert page.locator("tbody tr").count() > 20


def test_owner_approves_with_a_reason(signed_in_page, picture, team, owner, asked, complaints):
    page = signed_in_page(owner)
    page.goto(reverse("usage:cost-list", args=[team.slug]))
    page.get_by_role("button", name="Approve $285.00").click()
    page.get_by_text("Say why it may be spent all the same.").first.wait_for()
    picture(page, "approval-needs-a-reason")
    page.get_by_label("Reason").fill("the client waits for it")
    page.get_by_role("button", name="Approve $285.00").click()
    page.get_by_text("Job 13: $285.00 approved.").wait_for()
    asked.refresh_from_db()
    assert asked.status == "approved"
    assert all("422" in words for words in complaints)  # the browser notes the first answer, which asked for the reason
    complaints.clear()
