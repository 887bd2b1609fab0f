"""The log-in page in a real browser."""

import pytest


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
