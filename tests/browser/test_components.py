"""Every component in a real browser: looks, accessibility, charts, keys, drawer, and no violation of the policy."""

import pytest
from playwright.sync_api import expect

PARTS = "/t/duty-desk/parts/"


@pytest.fixture
def parts(signed_in_page, owner, settings):
    settings.ROOT_URLCONF = "tests.browser.components_page"

    def at(**how):
        page = signed_in_page(owner, **how)
        page.goto(PARTS)
        page.locator(".js-plotly-plot").nth(1).wait_for()
        page.keyboard.press("Escape")  # leaves the field with an error, which has the focus
        page.evaluate("scrollTo(0, 0)")
        return page

    return at


@pytest.mark.parametrize("width,theme", [("wide", "light"), ("wide", "dark"), ("middle", "light"), ("phone", "dark")])
def test_components_are_accessible(parts, axe, picture, width, theme):
    page = parts(width=width, theme=theme)
    picture(page, f"parts-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_chart_hover_answers_and_a_click_opens_the_rows(parts, picture):
    page = parts()
    box = page.locator("#reward .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.34)
    page.locator("#reward .hoverlayer text").first.wait_for()
    picture(page, "chart-hover")
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.34)
    page.wait_for_url("**/members/?train_step=*")


def test_chart_offers_no_button_that_sends_data_away(parts):
    page = parts()
    page.locator("#reward").hover()
    titles = page.locator("#reward .modebar-btn").evaluate_all("all => all.map((one) => one.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Reset axes"]


def test_chart_takes_the_colours_of_a_new_theme(parts):
    page = parts()
    line = page.locator("#reward .scatterlayer .js-line").first
    expect(line).to_have_css("stroke", "rgb(43, 97, 186)")
    page.locator("summary.avatar").click()
    page.get_by_role("button", name="Dark").click()
    expect(line).to_have_css("stroke", "rgb(90, 175, 253)")


def test_chart_has_its_numbers_as_a_table(parts):
    page = parts()
    page.get_by_text("as table").first.click()
    assert page.get_by_role("cell", name="0.46", exact=True).is_visible()


def test_keys_walk_through_a_list(parts):
    page = parts()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator("tr.is-selected").inner_text().startswith("Goods stored in Poland, case 1")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/members/?row=1")


def test_a_click_on_a_row_opens_its_first_link(parts):
    page = parts()
    page.evaluate("document.querySelectorAll('[data-drawer]').forEach((a) => a.removeAttribute('data-drawer'))")
    page.locator("[data-rows] tbody tr").nth(2).locator("td.num").first.click()
    page.wait_for_url("**/members/?row=3")


def test_space_peeks_and_escape_closes_in_place(parts, picture):
    page = parts()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    page.get_by_text("What the drawer shows.").wait_for()
    picture(page, "drawer")
    assert "peek=1" in page.url
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{PARTS}")
    assert page.locator("tr.is-selected").count() == 1


def test_link_with_peek_opens_the_drawer(parts, signed_in_page, owner, settings):
    settings.ROOT_URLCONF = "tests.browser.components_page"
    page = signed_in_page(owner)
    page.goto(f"{PARTS}?peek=2")
    page.get_by_text("What the drawer shows.").wait_for()


def test_confirm_opens_states_the_sum_and_closes(parts, axe, picture):
    page = parts()
    page.get_by_role("button", name="Launch a job").click()
    page.get_by_role("button", name="Launch and hold $136").wait_for()
    picture(page, "confirm")
    assert axe(page) == []
    page.get_by_role("button", name="Keep as it is").click()
    assert not page.get_by_role("button", name="Launch and hold $136").is_visible()


def test_failed_refresh_keeps_the_old_content_and_says_so(parts, complaints, picture):
    page = parts()
    page.evaluate("htmx.ajax('GET', '/t/duty-desk/parts/broken/', {target: '.verdict-head'})")
    page.get_by_text("not refreshed since").wait_for()
    assert page.get_by_text("Ready, with 2 warnings").is_visible()
    complaints.clear()  # the browser logs the 500 itself


def test_jump_leads_to_a_page_by_keys_alone(signed_in_page, owner, axe, picture):
    page = signed_in_page(owner)
    page.goto("/t/duty-desk/")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("/")
    page.locator("#jump-list a").first.wait_for()
    picture(page, "jump")
    assert axe(page) == []
    page.keyboard.type("member")
    expect(page.locator("#jump-list a")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/members/")


def test_go_keys_lead_along_the_rail(signed_in_page, owner):
    page = signed_in_page(owner)
    page.goto("/t/duty-desk/keys/")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/t/duty-desk/")
