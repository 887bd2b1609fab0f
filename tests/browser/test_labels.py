"""Two annotators and one adjudicator, each in a browser of their own."""

import re

import pytest
from django.urls import reverse

from datasets.labelling import services
from datasets.models import LabelEntry
from rftstudio.teams.models import Role
from tests.conftest import actor_in
from tests.datasets.helpers import import_bytes, jsonl, row
from tests.datasets.labelling.conftest import FIELDS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: With the time, since "saved as you go" stands there from the start.
SAVED = re.compile(r"^saved \d\d:\d\d")


@pytest.fixture
def people(team):
    return [actor_in(team, Role.EXPERT) for _ in range(3)]


@pytest.fixture
def task(member, people):
    version = import_bytes(
        member, jsonl(*(row(f"Where is service {n} taxed?", reference_answer="secret") for n in range(4))), name="VAT"
    )
    anna, bert, cleo = people
    return services.task_create(
        actor=member, name="Is the conclusion right?", fields=FIELDS, version=version, overlap=2,
        annotators=[anna.user, bert.user], adjudicators=[cleo.user], instructions="Read the question first.",
    )  # fmt: skip


def address(name: str, task, *args) -> str:
    return reverse(f"labels:{name}", args=[task.team.slug, task.public_id, *args])


def label_all(page, task, keys: str) -> None:
    """Answer entry after entry by keyboard alone."""
    page.goto(address("entry-next", task))
    for number, key in enumerate(keys):
        page.get_by_text(f"Where is service {number} taxed?").wait_for()
        page.keyboard.press(key)
        page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Nothing is left for you").or_(
        page.get_by_role("heading", name="All entries are labelled")
    ).wait_for()


def test_two_annotators_and_an_adjudicator(signed_in_page, axe, picture, task, people, member):
    anna, bert, cleo = people
    first = signed_in_page(anna)
    label_all(first, task, "yyny")
    second = signed_in_page(bert)
    second.goto(address("entry-next", task))
    picture(second, "label-queue")
    assert axe(second) == []
    assert anna.user.email not in second.content()
    assert "secret" not in second.content()
    second.keyboard.press("n")
    second.get_by_text(SAVED).wait_for()
    second.reload()
    assert second.get_by_role("radio", name="No").is_checked(), "the draft was kept"
    label_all(second, task, "ynnn")
    assert task.entries.filter(status=LabelEntry.Status.DISPUTED).count() == 2

    third = signed_in_page(cleo)
    third.goto(address("task-detail", task))
    picture(third, "label-task")
    assert axe(third) == []
    third.get_by_role("link", name="0002").first.click()
    picture(third, "label-settle")
    assert axe(third) == []
    assert anna.user.email not in third.content()
    third.keyboard.press("n")
    third.keyboard.press("Control+Enter")
    third.get_by_role("heading", name="Settle 0004").wait_for()
    third.keyboard.press("n")
    third.keyboard.press("Control+Enter")
    third.get_by_role("heading", name="Agreement").wait_for()
    alpha = third.locator("tbody tr").first.locator("td b").inner_text()
    assert -1 <= float(alpha) <= 1

    maker = signed_in_page(member)
    maker.goto(address("task-detail", task))
    maker.get_by_role("button", name="Write labels").click()
    maker.get_by_role("heading", name="VAT, version 1").wait_for()
    assert [item.data["right"] for item in task.version.items.order_by("position")] == ["Yes", "No", "No", "No"]
    assert list(task.entries.get(position=1).events.values_list("verb", flat=True)) == [
        "submitted", "submitted", "adjudicated",
    ]  # fmt: skip


def test_steps_are_marked_by_keys(signed_in_page, axe, picture, member, people):
    fields = [*FIELDS, {"name": "steps", "label": "Did each step bring the agent closer?", "kind": "steps",
                        "required": False}]  # fmt: skip
    task = services.task_create(actor=member, name="VAT rollouts", fields=fields)
    steps = [
        {"title": f"Read article {n}", "text": "Services are taxed where the customer is. " * n} for n in (44, 47, 58)
    ]
    content = {"messages": row("Where is storage taxed?")["messages"], "steps": steps, "answer": "In the Netherlands."}
    services.task_add_subjects(
        actor=member, task=task, subjects=[{"subject": f"roll-{n}", "content": content} for n in range(2)]
    )
    page = signed_in_page(people[0])
    page.goto(address("entry-next", task))
    for key in ("1", "j", "j", "3", "y"):
        page.keyboard.press(key)
    assert page.get_by_role("radio", name="Yes").is_checked()
    picture(page, "label-steps")
    assert axe(page) == []
    with page.expect_response("**/submit/"):
        page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Rollout 2").wait_for()
    assert task.entries.get(position=0).result == {"right": "Yes", "steps": {"0": 1, "2": -1}}
    page.keyboard.press("Control+z")
    page.get_by_role("heading", name="Rollout 1").wait_for()
    assert page.get_by_role("radio", name="harms").nth(2).is_checked()


def test_queue_on_a_phone(signed_in_page, axe, picture, task, people):
    page = signed_in_page(people[0], width="phone")
    page.goto(address("entry-next", task))
    picture(page, "label-queue-phone", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_task_form_is_accessible(signed_in_page, axe, picture, member, team, task):
    page = signed_in_page(member, theme="dark")
    for name in ("task-new", "task-list", "task-import"):
        page.goto(reverse(f"labels:{name}", args=[team.slug]))
        picture(page, f"label-{name}")
        assert axe(page) == []


def test_next_entry_is_there_before_the_reply(signed_in_page, complaints, task, people):
    page = signed_in_page(people[0])
    with page.expect_response("**/ahead/0/"):
        page.goto(address("entry-next", task))
    held = []
    page.route("**/submit/", lambda route: held.append(route))
    page.keyboard.press("y")
    with page.expect_request("**/submit/"):
        page.keyboard.press("Control+Enter")
    page.get_by_text("Where is service 1 taxed?").wait_for()
    assert task.entries.get(position=0).submitted == 0, "nothing has reached the server yet"
    page.keyboard.press("n")
    with page.expect_response("**/ahead/1/"):
        held.pop().continue_()
    assert page.get_by_role("radio", name="No").is_checked(), "what was answered meanwhile stays"
    assert task.entries.get(position=0).submitted == 1
    page.unroute("**/submit/")
    page.route("**/submit/", lambda route: route.abort())
    page.keyboard.press("Control+Enter")
    page.get_by_text("not saved: the connection broke").wait_for()
    assert page.get_by_text("Where is service 1 taxed?").is_visible()
    assert page.get_by_role("radio", name="No").is_checked()
    page.unroute("**/submit/")
    with page.expect_response("**/ahead/2/"):
        page.keyboard.press("Control+Enter")
    page.get_by_text("Where is service 2 taxed?").wait_for()
    assert [each.submitted for each in task.entries.order_by("position")[:2]] == [1, 1]
    page.keyboard.press("y")
    page.get_by_text(SAVED).wait_for()
    page.context.clear_cookies(name="sessionid")  # the session has ended: the reply is the page to log in
    page.keyboard.press("Control+Enter")
    page.get_by_text("not saved: the connection broke, or you are logged out").wait_for()
    assert page.get_by_text("Where is service 2 taxed?").is_visible()
    assert page.get_by_role("radio", name="Yes").is_checked()
    complaints.clear()  # the browser logs the broken connection itself
