"""The console in a real browser: in the house's colours, without a complaint of the content policy."""

import pytest
from django.urls import reverse

from rftstudio.teams.actor import Actor
from tests.factories.teams import UserFactory
from tests.usage.world import month_of_spend

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def root(owner, member) -> Actor:
    month_of_spend(owner, member)
    return Actor(team=owner.team, user=UserFactory(is_staff=True, is_superuser=True))


@pytest.mark.parametrize(("width", "theme"), [("wide", "light"), ("wide", "dark"), ("phone", "light")])
def test_console_looks_right(signed_in_page, axe, picture, root, width, theme, complaints):
    page = signed_in_page(root, width=width, theme=theme)
    page.goto(reverse("admin:index"))
    page.wait_for_selector("#spend-by-day .main-svg")
    picture(page, f"console-{width}-{theme}")
    assert complaints == []
    assert axe(page) == []
    complaints.clear()  # axe itself writes a style element for the sheet that ours imports
    for name in (
        "usage_ledgerline_changelist",
        "usage_quota_changelist",
        "usage_price_add",
        "teams_user_changelist",
        "orders_modelalias_add",
    ):
        page.goto(reverse(f"admin:{name}"))
        picture(page, f"console-{name}-{width}-{theme}")
