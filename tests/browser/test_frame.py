"""The frame that every page shares: rail, trail, menus, keys, focus."""

import pytest


@pytest.fixture
def home(signed_in_page, owner):
    def at(path: str = "", **how):
        page = signed_in_page(owner, **how)
        page.goto(f"/t/duty-desk/{path}")
        return page

    return at


@pytest.mark.parametrize("path", ["", "keys/", "members/", "nowhere/"])
@pytest.mark.parametrize("width,theme", [("wide", "light"), ("wide", "dark"), ("middle", "light"), ("phone", "light")])
def test_team_pages_are_accessible(home, axe, picture, path, width, theme, complaints):
    page = home(path, width=width, theme=theme)
    page.wait_for_load_state("networkidle")
    picture(page, f"frame-{path.strip('/') or 'home'}-{width}-{theme}")
    assert axe(page) == []
    if path == "nowhere/":
        complaints.clear()  # the browser logs the 404 itself


def test_first_tab_stop_skips_to_the_content(home):
    page = home()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_rail_narrows_by_key_and_stays_so(home):
    page = home()
    page.keyboard.press("\\")
    assert page.locator(".rail").bounding_box()["width"] == 56
    page.reload()
    assert page.locator(".rail").bounding_box()["width"] == 56


def test_keys_dialog_opens_and_closes(home, axe, picture):
    page = home()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    picture(page, "keys")
    assert axe(page) == []
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_single_keys_rest_in_fields_and_can_be_switched_off(home):
    page = home("keys/")
    page.get_by_label("Name").focus()
    page.keyboard.press("?")
    assert not page.get_by_role("dialog", name="Keys").is_visible()
    page.get_by_role("button", name="Help and keys").click()
    page.get_by_label("Single keys work").uncheck()
    page.keyboard.press("Escape")
    page.locator("main").click(position={"x": 5, "y": 5})
    page.keyboard.press("?")
    assert not page.get_by_role("dialog", name="Keys").is_visible()


def test_theme_choice_is_shown_at_once_and_kept(home):
    page = home()
    page.locator("summary.avatar").click()
    with page.expect_response("**/theme/"):
        page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(17, 20, 18)"
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_rail_opens_from_the_bottom_bar_without_script(home, picture):
    page = home(width="phone", script=False)
    assert not page.locator("#rail").is_visible()
    page.get_by_role("link", name="More").click()
    assert page.locator("#rail").is_visible()
    picture(page, "more-phone")
    page.get_by_role("link", name="Close the menu").click()
    assert not page.locator("#rail").is_visible()


@pytest.mark.parametrize("width", ["wide", "phone"])
def test_page_never_scrolls_sideways(home, width):
    page = home("keys/", width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_refused_form_puts_the_focus_on_its_first_error(home, complaints):
    page = home("keys/")
    page.get_by_label("Name").evaluate("field => field.required = false")
    page.get_by_role("button", name="Make a key").click()
    page.locator("[aria-invalid=true]").wait_for()
    assert page.evaluate("document.activeElement.name") == "name"
    complaints.clear()  # the browser logs the 422 itself


def test_revoking_a_key_asks_first(home, picture):
    page = home("keys/")
    page.get_by_label("Name").fill("nightly import")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_text("shown this once").wait_for()
    picture(page, "key-made")
    page.get_by_role("button", name="Revoke", exact=True).click()
    picture(page, "key-confirm")
    page.get_by_role("button", name="Revoke nightly import").click()
    page.get_by_text("no longer works").wait_for()
    assert page.get_by_text("revoked").first.is_visible()
