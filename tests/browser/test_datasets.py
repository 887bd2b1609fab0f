"""Dataset pages in a real browser: looks, keys, drawer, upload."""

import pytest
from django.urls import reverse

from datasets import repairs
from datasets.services import dataset_version_split
from tests.datasets.helpers import import_bytes, jsonl, row

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TOPICS = ("Immovable property", "General rule", "Electronic services", "Transport")


def tax_rows(count: int) -> bytes:
    rows = [
        row(
            f"Case {n}: a German company stores goods for a Dutch retailer in its warehouse. "
            + "Where is it taxed? " * (n % 9 + 1),
            reference_answer=("Netherlands", "Poland", "Spain")[n % 3],
            topic=TOPICS[n % 4],
            provisions=["Dir. Art. 44", f"C-{n}/12"],
            client={"country": "DE", "is_business": True, "turnover": 1970670598291982290},
        )
        for n in range(count)
    ]
    chats = [
        {"messages": [{"role": "user", "content": f"Ferry {n}?"}, {"role": "assistant", "content": "Italy"}]}
        for n in range(6)
    ]
    return jsonl(*rows, *chats) + b'{"messages": [{"role": "user", "content": "broken"}] "topic": 1}\n[1]\n'


@pytest.fixture
def version(member):
    made = import_bytes(member, tax_rows(70), "vat_2026_q3.jsonl", name="VAT place of supply")
    dataset_version_split(actor=member, version=made, shares={"train": 0.8, "validation": 0.12, "test": 0.08})
    return made


def address(version, name: str = "version-detail", *args) -> str:
    return reverse(f"datasets:{name}", args=[version.team.slug, version.public_id, *args])


@pytest.mark.parametrize(("width", "theme"), [("wide", "light"), ("wide", "dark"), ("phone", "light")])
def test_version_page_looks_right_and_is_accessible(signed_in_page, axe, picture, member, version, width, theme):
    page = signed_in_page(member, width=width, theme=theme)
    for tab in ("items", "lines", "labels", "repeats", "fields", "history"):
        page.goto(address(version) + f"?tab={tab}")
        picture(page, f"dataset-{tab}-{width}-{theme}")
        # Tall enough that no row is cut by the key bar, which axe would take for a small target.
        page.set_viewport_size({"width": page.viewport_size["width"], "height": 3600})
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_item_opens_in_the_drawer_and_as_a_page(signed_in_page, axe, picture, member, version):
    page = signed_in_page(member)
    page.goto(address(version))
    page.locator("table a").first.click()
    page.wait_for_selector("#drawer .said-text")
    picture(page, "dataset-drawer")
    assert "peek=0" in page.url
    assert axe(page) == []
    page.goto(address(version, "item-detail", 0))
    assert axe(page) == []


def test_fix_of_a_kind_and_undo_by_button(signed_in_page, picture, member, version):
    page = signed_in_page(member)
    page.goto(address(version))
    page.get_by_role("button", name="Move 6 answers to the reference").click()
    page.get_by_role("button", name="Undo").wait_for()
    picture(page, "dataset-fixed")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Move 6 answers to the reference").wait_for()


def test_upload_of_a_table_with_live_preview(signed_in_page, axe, picture, member, team, tmp_path):
    file = tmp_path / "sums.csv"
    file.write_text("ask,reply,topic\nTwo plus two?,4,sums\nTwo plus three?,5,sums\n")
    page = signed_in_page(member)
    page.goto(reverse("datasets:dataset-new", args=[team.slug]))
    picture(page, "dataset-new")
    assert axe(page) == []
    page.get_by_label("Name", exact=True).fill("Sums")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("button", name="Upload and look at it").click()
    page.wait_for_url("**/datasets/map/**")
    page.get_by_label("Reference answer").select_option("topic")
    page.locator("#preview dd", has_text="sums").first.wait_for()
    page.get_by_label("Reference answer").select_option("reply")
    page.locator("#preview dd", has_text="4").first.wait_for()
    picture(page, "dataset-map")
    assert axe(page) == []
    page.get_by_role("button", name="Import sums.csv").click()
    page.get_by_role("heading", name="Sums, version 1").wait_for()
    assert page.get_by_role("link", name="Two plus three?").is_visible()


def test_skip_unblocks_the_freeze(signed_in_page, member, version):
    repairs.kind_fix(actor=member, version=version, code="last_message_assistant")
    page = signed_in_page(member)
    page.goto(address(version))
    assert page.get_by_role("button", name="Freeze version").is_disabled()
    page.get_by_role("button", name="Skip all lines").click()
    page.get_by_role("button", name="Freeze version").click()
    page.get_by_role("button", name="New version from this").wait_for()


def test_file_in_another_encoding_is_read_by_one_click_and_back(signed_in_page, axe, picture, member):
    rows = jsonl(row("Où est-ce taxé ?", reference_answer="Malte"), row("Et d'Espagne ?"))
    made = import_bytes(member, rows.decode("unicode_escape").encode("cp1252"), "questions.jsonl", name="Questions")
    page = signed_in_page(member)
    page.goto(address(made))
    page.get_by_text("Où est-ce taxé ? · Malte").first.wait_for()
    picture(page, "dataset-encodings")
    assert axe(page) == []
    page.get_by_role("button", name="Read it as Windows-1252 or Latin-1").click()
    page.get_by_text("questions.jsonl is read as Windows-1252").first.wait_for()
    assert page.get_by_role("link", name="Où est-ce taxé ?").is_visible()
    picture(page, "dataset-encoding-chosen")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Read it as Windows-1252 or Latin-1").wait_for()
