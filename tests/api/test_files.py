"""`/v1/files` through the unmodified SDK."""

from datetime import timedelta

import openai
import pytest
from django.utils import timezone
from openai.types import FileObject

from datasets.models import SourceFile
from rftstudio.orders import files as kept
from rftstudio.orders.models import FileNote
from rftstudio.teams.models import AuditEvent
from rftstudio.usage.models import Notice
from tests.api.conftest import jsonl, rows_of

pytestmark = pytest.mark.django_db
GOOD = jsonl(rows_of(3))


def test_file_goes_round_byte_for_byte(ai):
    body = GOOD + '{"messages":[{"role":"user","content":"\u2028"}],"n":12345678901234567890}'.encode()
    made = ai.files.create(file=("train.jsonl", body), purpose="fine-tune")
    FileObject.model_validate(made.model_dump())
    assert (made.status, made.bytes, made.filename, made.purpose) == (
        "processed",
        len(body),
        "train.jsonl",
        "fine-tune",
    )
    assert ai.files.retrieve(made.id) == made
    assert ai.files.content(made.id).read() == body
    assert ai.files.wait_for_processing(made.id).id == made.id
    assert ai.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError) as refusal:
        ai.files.retrieve(made.id)
    assert refusal.value.body["param"] == "id"
    assert not SourceFile.objects.exists()


def test_file_with_bad_lines_says_which(ai):
    body = GOOD + b'{"messages": [}\n' + jsonl([{"messages": [{"role": "assistant", "content": "x"}]}])
    made = ai.files.create(file=("train.jsonl", body), purpose="fine-tune")
    assert made.status == "error"
    assert "Line 4, column" in made.status_details
    assert "Line 5: The last message is from the assistant" in made.status_details


def test_pointer_instead_of_data_is_named(ai):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n"
    made = ai.files.create(file=("train.jsonl", pointer), purpose="fine-tune")
    assert (made.status, made.status_details.split(".")[0]) == ("error", "This is a Git LFS pointer, not the data")


def test_large_file_is_looked_at_by_a_worker(ai, monkeypatch):
    monkeypatch.setattr(kept, "LOOK_AT_ONCE", 10)
    made = ai.files.create(file=("train.jsonl", GOOD), purpose="fine-tune")
    assert made.status == "uploaded"
    kept.file_check(source_file_id=SourceFile.objects.get().pk)
    assert ai.files.retrieve(made.id).status == "processed"


def test_list_pages_neither_skip_nor_repeat(ai):
    ids = [ai.files.create(file=(f"{n}.jsonl", GOOD), purpose="fine-tune").id for n in range(5)]
    other = ai.files.create(file=("notes.txt", b"x"), purpose="user_data").id
    assert [one.id for one in ai.files.list(limit=2)] == [other, *ids[::-1]]
    assert [one.id for one in ai.files.list(limit=2, order="asc", purpose="fine-tune")] == ids
    page = ai.files.list(limit=2, after=ids[3])
    assert [one.id for one in page.data] == [ids[2], ids[1]]
    assert page.has_more


def test_list_asks_as_many_queries_for_twenty_as_for_ten(ai, django_assert_max_num_queries):
    for n in range(20):
        ai.files.create(file=(f"{n}.jsonl", GOOD), purpose="fine-tune")
    with django_assert_max_num_queries(5):  # key, its last use, its requests of this minute, files
        assert len(ai.files.list().data) == 20


def test_expired_file_is_gone_and_swept(ai):
    made = ai.files.create(
        file=("train.jsonl", GOOD), purpose="fine-tune", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert made.expires_at - made.created_at in (3599, 3600, 3601)
    FileNote.objects.update(expires_at=timezone.now())
    with pytest.raises(openai.NotFoundError):
        ai.files.retrieve(made.id)
    kept.files_sweep()
    assert not SourceFile.objects.exists()


def test_owners_are_told_once_of_files_that_will_expire(ai, team):
    week = {"anchor": "created_at", "seconds": 7 * 86_400}
    for name in ("a.jsonl", "b.jsonl"):
        ai.files.create(file=(name, GOOD), purpose="fine-tune", expires_after=week)
    ai.files.create(file=("short.jsonl", GOOD), purpose="fine-tune", expires_after={**week, "seconds": 7200})
    assert kept.files_warn() == 0, "a week is far, and what lives two hours was meant to"
    SourceFile.objects.update(created_at=timezone.now() - timedelta(days=5))
    day = timezone.now() + timedelta(days=2)
    FileNote.objects.exclude(source_file__filename="short.jsonl").update(expires_at=day)
    FileNote.objects.filter(source_file__filename="short.jsonl").update(expires_at=timezone.now() - timedelta(days=4))
    assert kept.files_warn() == 1
    kept.files_sweep()
    notice = Notice.objects.get()
    assert (notice.team, notice.title) == (team, f"2 uploaded files will expire on {day:%d %B %Y}")
    assert notice.text.startswith("a.jsonl, b.jsonl.")


def test_files_that_expire_at_another_hour_of_that_day_are_told_with_it(ai):
    week = {"anchor": "created_at", "seconds": 7 * 86_400}
    for name in ("a.jsonl", "b.jsonl"):
        ai.files.create(file=(name, GOOD), purpose="fine-tune", expires_after=week)
    SourceFile.objects.update(created_at=timezone.now() - timedelta(days=5))
    morning = (timezone.now() + timedelta(days=3)).replace(hour=0, minute=0, second=1)
    FileNote.objects.filter(source_file__filename="a.jsonl").update(expires_at=morning)
    FileNote.objects.filter(source_file__filename="b.jsonl").update(expires_at=morning.replace(hour=23, minute=59))
    assert kept.files_warn() == 1
    assert kept.files_warn() == 0
    assert Notice.objects.get().text.startswith("a.jsonl, b.jsonl.")


@pytest.mark.parametrize(
    ("name", "body", "more", "param"),
    [
        ("train.csv", b"a,b\n1,2\n", {}, "file"),
        ("train.jsonl", b"", {}, "file"),
        ("train.jsonl", GOOD, {"purpose": "training"}, "purpose"),
        ("train.jsonl", GOOD, {"expires_after": {"anchor": "created_at", "seconds": 5}}, "expires_after.seconds"),
        ("train.jsonl", GOOD, {"extra_body": {"colour": "red"}}, "colour"),
    ],
)
def test_bad_upload_is_refused_with_its_parameter(ai, name, body, more, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.files.create(file=(name, body), **{"purpose": "fine-tune", **more})
    assert refusal.value.body["param"] == param
    assert set(refusal.value.response.json()["error"]) == {"message", "type", "param", "code"}
    assert not SourceFile.objects.exists()


def test_upload_that_is_no_form_or_has_no_file_is_refused(client, secret):
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.post("/v1/files", "{}", "application/json", headers=headers).status_code == 415
    assert client.post("/v1/files", b"x", "multipart/form-data; boundary=", headers=headers).status_code == 400
    answer = client.post("/v1/files", {"purpose": "fine-tune"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file")


def test_key_of_another_team_sees_nothing(ai, foreign):
    made = ai.files.create(file=("train.jsonl", GOOD), purpose="fine-tune")
    assert foreign.files.list().data == []
    for call in (foreign.files.retrieve, foreign.files.content, foreign.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(made.id)
    assert ai.files.retrieve(made.id).id == made.id


def test_reading_key_reads_and_writes_nothing(ai, reader):
    made = ai.files.create(file=("train.jsonl", GOOD), purpose="fine-tune")
    assert reader.files.content(made.id).read() == GOOD
    before = AuditEvent.objects.count()
    for call in (
        lambda: reader.files.delete(made.id),
        lambda: reader.files.create(file=("a.jsonl", GOOD), purpose="evals"),
    ):
        with pytest.raises(openai.PermissionDeniedError):
            call()
    assert (SourceFile.objects.count(), AuditEvent.objects.count()) == (1, before)
