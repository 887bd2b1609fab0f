"""Notices and the API's own page in a real browser."""

import pytest
from django.urls import reverse

from tests.fakes.server import HttpServer, Reply

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(("width", "theme"), [("wide", "light"), ("phone", "dark")])
def test_a_webhook_is_added_tested_and_read_in_its_log(
    signed_in_page, axe, picture, team, owner, settings, width, theme
):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    replies = [Reply(204), Reply(500)]
    server = HttpServer(lambda request: replies[min(len(server.requests), 2) - 1])
    with server:
        page = signed_in_page(owner, width=width, theme=theme)
        page.goto(reverse("notify:notice-list", args=[team.slug]))
        picture(page, f"notices-empty-{width}-{theme}")
        page.get_by_label("Address").fill(f"{server.url}/studio")
        page.get_by_role("button", name="Add the webhook").click()
        page.get_by_text("shown this once").wait_for()
        assert page.locator("code.variable").inner_text().startswith("whsec_")
        picture(page, f"notices-{width}-{theme}")
        assert axe(page) == []
        page.get_by_role("link", name=f"{server.url}/studio").click()
        for words in ("The address answered 204.", "It did not arrive: answered 500."):
            page.get_by_role("button", name="Send a test").click()
            page.get_by_text(words).first.wait_for()
        picture(page, f"webhook-{width}-{theme}")
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "whsec_" not in page.content()


def test_the_apis_page_runs_under_the_policy_and_asks_as_the_person(signed_in_page, picture, team, owner):
    page = signed_in_page(owner)
    page.set_default_timeout(60_000)  # a large description is made and drawn
    page.goto("/api/docs/", wait_until="commit")
    page.locator("#operations-tag-me").click()
    page.locator("#operations-me-me_get .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table").get_by_text('"slug": "duty-desk"').first.wait_for()
    picture(page, "api-docs")
