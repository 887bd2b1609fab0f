"""Label pages, by the browser's door."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from datasets.labelling import selectors, services
from datasets.models import Label, LabelTask
from tests.datasets.helpers import CASES
from tests.datasets.labelling.conftest import FIELDS

pytestmark = pytest.mark.django_db


def url(name: str, task, *args) -> str:
    return reverse(f"labels:{name}", args=[task.team.slug, task.public_id, *args])


def submitted(actor, task, value: str) -> None:
    entry, _ = services.entry_claim(actor=actor, task=task)
    services.label_submit(actor=actor, entry=entry, values={"right": value, "note": f"note of {actor.user.email}"})


def test_task_is_made_by_form(client_of, member, version, team):
    client = client_of(member)
    assert client.get(reverse("labels:task-new", args=[team.slug])).status_code == 200
    data = {
        "name": "Right?", "version": version.public_id, "split": "", "overlap": 1, "is_blind": "on", "instructions": "Read.",
        "field-TOTAL_FORMS": 3, "field-INITIAL_FORMS": 0,
        "field-0-label": "Is it right?", "field-0-kind": "choice", "field-0-options": "Yes\nNo", "field-0-required": "on",
        "field-1-label": "How good?", "field-1-kind": "score", "field-1-low": "1", "field-1-high": "5",
        "field-2-label": "", "field-2-kind": "text",
    }  # fmt: skip
    answer = client.post(reverse("labels:task-new", args=[team.slug]), data, follow=True)
    task = LabelTask.objects.get()
    assert answer.status_code == 200
    assert [(field["name"], field["kind"]) for field in task.fields] == [
        ("is_it_right", "choice"),
        ("how_good", "score"),
    ]
    assert task.entries.count() == 4
    page = client.get(url("entry-next", task))
    assert b'data-key="y"' in page.content


def test_task_without_questions_is_refused(client_of, member, version, team):
    data = {
        "name": "Right?",
        "version": version.public_id,
        "overlap": 1,
        "field-TOTAL_FORMS": 0,
        "field-INITIAL_FORMS": 0,
    }
    answer = client_of(member).post(reverse("labels:task-new", args=[team.slug]), data)
    assert answer.status_code == 422
    assert b"The form has no field" in answer.content


def test_queue_shows_the_entry_and_hides_the_reference(client_of, task, anna):
    page = client_of(anna).get(url("entry-next", task))
    assert b"Question 0?" in page.content
    assert b"secret reference" not in page.content


def test_queue_shows_what_a_rollout_did_and_answered(client_of, member, anna):
    fields = [{"name": name, "label": name, "kind": kind} for name, kind in (("steps", "steps"), ("answer", "note"))]
    task = services.task_create(actor=member, name="Rollouts", fields=fields)
    content = {
        "messages": [{"role": "user", "content": "Where?"}],
        "steps": [{"title": "Read article 44", "text": "It says so."}],
        "answer": "In Malta.",
    }
    services.task_add_subjects(actor=member, task=task, subjects=[{"subject": "roll-1", "content": content}])
    page = client_of(anna).get(url("entry-next", task)).content.decode()
    assert all(text in page for text in ("Where?", "Read article 44", "It says so.", "In Malta."))
    assert 'name="value-steps-0" value="-1"' in page


def test_submit_by_htmx_answers_the_next_entry(client_of, task, anna, bert):
    client, htmx = client_of(anna), {"HX-Request": "true"}
    client.get(url("entry-next", task))
    page = client.post(url("label-submit", task, 0), {"value-right": "0"}, headers=htmx)
    assert page.templates[0].name == "labels/_queue.html"
    assert "Question 1?" in page.content.decode()
    assert client.post(url("label-submit", task, 1), {}, headers=htmx).status_code == 422
    for place in (1, 2, 3):
        page = client.post(url("label-submit", task, place), {"value-right": "0"}, headers=htmx)
    assert "Nothing is left for you" in page.content.decode()


def test_item_says_how_far_its_labels_are_and_what_holds(client_of, task, version, anna, bert):
    item = reverse("datasets:item-detail", args=[task.team.slug, version.public_id, 0])
    submitted(anna, task, "Yes")
    page = client_of(bert).get(item).content.decode()
    assert "1 of 2 labels are in" in page
    assert "note of" not in page
    submitted(bert, task, "Yes")
    assert "agreed" in client_of(bert).get(item).content.decode()
    page = client_of(bert).get(reverse("datasets:version-detail", args=[task.team.slug, version.public_id]))
    assert [each.label_mark for each in page.context["page"].items] == ["agreed", "0 of 2", "0 of 2", "0 of 2"]


def test_flagged_entry_is_listed_and_can_be_settled_though_all_agree(client_of, task, anna, bert, cleo):
    for actor in (anna, bert):
        entry, _ = services.entry_claim(actor=actor, task=task)
        agreed = services.label_submit(actor=actor, entry=entry, values={"right": "Yes"}, is_flagged=actor is anna)
    page = client_of(cleo).get(url("task-detail", task))
    assert page.context["flagged"] == [agreed]
    client_of(cleo).post(url("entry-settle", task, 0), {"value-right": "1"})
    agreed.refresh_from_db()
    assert (agreed.status, agreed.result) == ("settled", {"right": "No"})
    assert client_of(cleo).get(url("task-detail", task)).context["flagged"] == []


def test_flag_of_another_is_blind_too(client_of, task, anna, bert):
    entry, _ = services.entry_claim(actor=anna, task=task)
    services.label_submit(actor=anna, entry=entry, values={"right": "Yes"}, is_flagged=True)
    assert client_of(bert).get(url("task-detail", task)).context["flagged"] == []


def test_queue_shows_nothing_of_others(client_of, task, anna, bert):
    submitted(anna, task, "Yes")
    client = client_of(bert)
    for address in (url("entry-next", task), url("task-detail", task), url("task-export", task)):
        page = client.get(address)
        assert page.status_code == 200
        assert b"note of" not in page.content, address


def test_autosave_submit_skip_and_undo(client_of, task, anna):
    client = client_of(anna)
    client.get(url("entry-next", task))
    saved = client.post(url("label-save", task, 0), {"value-right": "0"})
    assert b"saved" in saved.content
    assert Label.objects.get().values == {"right": "Yes"}
    refused = client.post(url("label-submit", task, 0), {"value-note": "x"})
    assert refused.status_code == 422
    assert b"choose or write something" in refused.content
    answer = client.post(url("label-submit", task, 0), {"value-right": "1", "flag": "on"}, follow=True)
    assert b"Question 1?" in answer.content
    assert Label.objects.get(entry__position=0).is_flagged
    answer = client.post(url("label-skip", task, 1), {"reason": "unclear"}, follow=True)
    assert b"Question 2?" in answer.content
    answer = client.post(url("label-undo", task), follow=True)
    assert b"Question 1?" in answer.content


def test_choice_outside_the_list_is_left_out(client_of, task, anna):
    client = client_of(anna)
    client.get(url("entry-next", task))
    assert client.post(url("label-submit", task, 0), {"value-right": "7"}).status_code == 422


def test_disputed_entry_is_settled_with_names_hidden(client_of, task, anna, bert, cleo):
    submitted(anna, task, "Yes")
    submitted(bert, task, "No")
    client = client_of(cleo)
    page = client.get(url("entry-settle", task, 0))
    assert b"First label" in page.content
    assert anna.user.email not in page.content.decode().replace(f"note of {anna.user.email}", "")
    client.post(url("entry-settle", task, 0), {"value-right": "1"})
    page = client.get(url("entry-settle", task, 0))
    assert anna.user.email.encode() in page.content
    assert b"adjudicated" in page.content


def test_annotator_may_not_settle(client_of, task, anna, bert):
    submitted(anna, task, "Yes")
    submitted(bert, task, "No")
    assert client_of(anna).get(url("entry-settle", task, 0)).status_code == 403


def test_task_page_shows_agreement_and_writes_labels(client_of, task, anna, bert, member, version):
    for mine, theirs in (("Yes", "Yes"), ("No", "No"), ("Yes", "No"), ("No", "No")):
        submitted(anna, task, mine)
        submitted(bert, task, theirs)
    client = client_of(member)
    page = client.get(url("task-detail", task))
    assert "κ".encode() in page.content
    client.post(url("labels-apply", task), {"field": "right", "rule": "majority"})
    assert [item.data.get("right") for item in version.items.order_by("position")] == ["Yes", "No", None, "No"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("label-undo", {}),
        ("labels-apply", {"field": "right", "rule": "majority"}),
        ("task-status", {"status": "closed"}),
    ],
)
def test_viewer_and_stranger_may_not_write(client_of, task, viewer, stranger, name, data):
    assert client_of(viewer).post(url(name, task), data).status_code == 403
    assert client_of(stranger).post(url(name, task), data).status_code == 404


def test_viewer_reads_and_does_not_label(client_of, task, viewer):
    client = client_of(viewer)
    assert client.get(url("task-detail", task)).status_code == 200
    assert client.get(url("entry-next", task)).status_code == 403
    assert client.post(url("label-submit", task, 0), {"value-right": "0"}).status_code == 403
    assert client.get(reverse("labels:task-new", args=[task.team.slug])).status_code == 403


def test_stranger_sees_nothing(client_of, task, stranger):
    client = client_of(stranger)
    for address in (
        url("task-detail", task),
        url("entry-next", task),
        url("task-export", task),
        url("entry-settle", task, 0),
    ):
        assert client.get(address).status_code == 404
    assert client.post(url("label-save", task, 0), {"value-right": "0"}).status_code == 404
    own = reverse("labels:task-detail", args=[stranger.team.slug, task.public_id])
    assert client.get(own).status_code == 404


def test_label_studio_file_is_imported_by_page(client_of, member, team):
    content = (CASES / "real/label-studio/export_choices_hostile_text.json").read_bytes()
    file = SimpleUploadedFile("export.json", content)
    answer = client_of(member).post(
        reverse("labels:task-import", args=[team.slug]), {"name": "Works", "file": file}, follow=True
    )
    assert answer.status_code == 200
    assert b"rawWork:spotify" in answer.content or b"0001" in answer.content


def test_twenty_tasks_ask_as_many_queries_as_ten(client_of, member, version, team):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from tests.datasets.labelling.conftest import FIELDS

    client, counts = client_of(member), []
    for _ in range(2):
        for number in range(10):
            services.task_create(actor=member, name=f"Task {number}", fields=FIELDS, version=version)
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("labels:task-list", args=[team.slug]))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_entry_ahead_is_blind_and_holds_nothing(client_of, task, anna, bert, monkeypatch):
    submitted(bert, task, "Yes")
    submitted(bert, task, "No")
    entry, _ = services.entry_claim(actor=anna, task=task)
    client = client_of(anna)
    with monkeypatch.context() as patched:  # the answer before it will be there to take back
        patched.setattr(selectors, "last_submitted", lambda **_: pytest.fail("asked although it is known"))
        page = client.get(url("entry-ahead", task, entry.position)).content.decode()
    assert "Question 1?" in page
    assert bert.user.email not in page
    assert "secret reference" not in page
    assert 'value="1" checked' not in page
    assert Label.objects.filter(user=anna.user).count() == 1
    assert client.get(url("entry-ahead", task, 3)).status_code == 204


def test_entry_ahead_passes_over_what_is_taken(client_of, member, version, anna, bert):
    task = services.task_create(actor=member, name="Once", fields=FIELDS, version=version, overlap=1)
    services.entry_claim(actor=anna, task=task)
    services.entry_claim(actor=bert, task=task)
    page = client_of(anna).get(url("entry-ahead", task, 0)).content.decode()
    assert "Question 2?" in page
    services.task_set_status(actor=member, task=task, status="closed")
    assert client_of(anna).get(url("entry-ahead", task, 0)).status_code == 204
