"""The log-in page in a real browser."""

import pytest

from tests.teams.test_two_factor import code_of


@pytest.mark.parametrize("width", ["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_log_in_page_is_accessible(open_page, axe, picture, transactional_db, width, theme):
    page = open_page(width=width, theme=theme)
    page.goto("/log-in/")
    picture(page, f"log-in-{width}-{theme}")
    assert axe(page) == []


def test_log_in_by_keyboard_alone(open_page, member, picture):
    page = open_page()
    page.goto("/log-in/")
    page.keyboard.type(member.user.email)  # the first field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    picture(page, "log-in-refused")
    page.get_by_label("Password").fill("correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_url("**/t/duty-desk/")


def test_log_in_works_without_script(open_page, member):
    page = open_page(script=False)
    page.goto("/log-in/")
    page.get_by_label("E-mail address").fill(member.user.email)
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/t/duty-desk/")


@pytest.mark.parametrize(("width", "theme"), [("wide", "light"), ("phone", "dark")])
def test_two_factor_is_turned_on_and_used(open_page, member, axe, picture, width, theme):
    page = open_page(width=width, theme=theme)
    page.goto("/log-in/?next=/account/")
    page.get_by_label("E-mail address").fill(member.user.email)
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Turn it on").click()
    picture(page, f"is-it-you-{width}-{theme}")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Go on").click()
    picture(page, f"two-factor-on-{width}-{theme}")
    assert axe(page) == []
    page.get_by_text("It cannot be read").click()
    secret = page.locator("details .mono").inner_text().replace(" ", "")
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Turn it on").click()
    code = page.locator(".codes li").first.inner_text()
    picture(page, f"recovery-codes-{width}-{theme}")
    assert axe(page) == []
    page.get_by_role("link", name="I have kept them").click()
    picture(page, f"account-{width}-{theme}")
    assert axe(page) == []
    page.context.clear_cookies()
    page.goto("/log-in/?next=/account/")
    page.get_by_label("E-mail address").fill(member.user.email)
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    picture(page, f"second-step-{width}-{theme}")
    assert axe(page) == []
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("9 recovery codes are left").wait_for()
