"""Pages of datasets, by the browser's door."""

import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from datasets.models import Dataset, DatasetVersion
from datasets.services import dataset_version_freeze
from tests.datasets.helpers import import_bytes, import_case, jsonl, row
from tests.factories.studio import ready_baseline_of

pytestmark = pytest.mark.django_db

HOSTILE = '<script>alert(1)</script><a href="javascript:alert(1)">x</a>'


def url(name: str, version: DatasetVersion, *args) -> str:
    return reverse(f"datasets:{name}", args=[version.team.slug, version.public_id, *args])


def many(count: int) -> bytes:
    return jsonl(*(row(f"What is {n} plus 1?", reference_answer=str(n + 1)) for n in range(count)))


def test_list_without_datasets_says_what_to_do(client_of, member, team):
    page = client_of(member).get(reverse("datasets:dataset-list", args=[team.slug]))
    assert b"No tasks yet" in page.content


def test_list_of_twenty_asks_as_many_queries_as_ten(client_of, member, team):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client, counts, made = client_of(member), [], 0
    for total in (10, 20):
        for number in range(made, total):
            import_bytes(member, many(2), name=f"Dataset {number}")
        made = total
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("datasets:dataset-list", args=[team.slug]))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_version_of_twenty_items_asks_as_many_queries_as_ten(client_of, member):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client, counts = client_of(member), []
    for total in (10, 20):
        version = import_bytes(member, many(total), name=f"Of {total}")
        with CaptureQueriesContext(connection) as queries:
            assert client.get(url("version-detail", version)).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("tab", ["items", "lines", "labels", "repeats", "fields", "history", "nonsense"])
def test_every_tab_opens_for_a_version_with_faults(client_of, member, tab):
    version = import_bytes(
        member, many(3) + many(1) + b'{oops\n{"a": 1}\n{"id": 1, "messages": [{"role": "assistant", "content": "x"}]}\n'
    )
    page = client_of(member).get(url("version-detail", version) + f"?tab={tab}")
    assert page.status_code == 200


@pytest.mark.parametrize("role", ["viewer", "expert", "member", "owner"])
def test_version_opens_for_every_role(client_of, member, request, role):
    version = import_bytes(member, many(3))
    page = client_of(request.getfixturevalue(role)).get(url("version-detail", version))
    assert page.status_code == 200
    assert (b"Freeze version" in page.content) == (role in ("member", "owner"))


def test_stranger_sees_nothing(client_of, member, stranger):
    version = import_bytes(member, many(3) + b"{oops\n")
    client = client_of(stranger)
    problem = version.problems.get()
    for address in (
        reverse("datasets:dataset-list", args=[version.team.slug]), url("version-detail", version),
        url("item-detail", version, 0), url("import-progress", version), url("version-export", version, "jsonl"),
        url("problems-csv", version), url("line-edit", version, problem.pk),
        url("version-compare", version, version.public_id),
    ):  # fmt: skip
        assert client.get(address).status_code == 404, address
    own = reverse("datasets:version-detail", args=[stranger.team.slug, version.public_id])
    assert client.get(own).status_code == 404


WRITES = [
    ("kind-fix", {"code": "last_message_assistant"}), ("lines-skip", {}), ("items-drop", {"key": "0001"}),
    ("items-map", {"prompt": "messages"}), ("change-undo", {"change": "1"}), ("version-freeze", {}), ("version-copy", {}),
    ("near-repeats", {}), ("version-split", {"train": 80, "validation": 10, "test": 10, "seed": 0, "group_field": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data"), WRITES)
def test_viewer_may_not_write(client_of, member, viewer, name, data):
    version = import_bytes(member, many(3))
    assert client_of(viewer).post(url(name, version), data).status_code == 403


@pytest.mark.parametrize(("name", "data"), WRITES)
def test_stranger_may_not_write(client_of, member, stranger, name, data):
    version = import_bytes(member, many(3))
    assert client_of(stranger).post(url(name, version), data).status_code == 404


def test_viewer_may_not_upload(client_of, viewer, team):
    assert client_of(viewer).get(reverse("datasets:dataset-new", args=[team.slug])).status_code == 403


def test_upload_of_conversations_leads_to_the_version(client_of, member, team):
    file = SimpleUploadedFile("sums.jsonl", many(4))
    answer = client_of(member).post(
        reverse("datasets:dataset-new", args=[team.slug]), {"name": "Sums", "file": file}, follow=True
    )
    version = DatasetVersion.objects.get()
    assert answer.redirect_chain[-1][0] == url("version-detail", version)
    assert b"What is 0 plus 1?" in answer.content
    assert (version.item_count, version.dataset.name) == (4, "Sums")


def test_upload_without_a_name_is_refused_at_the_field(client_of, member, team):
    file = SimpleUploadedFile("sums.jsonl", many(4))
    answer = client_of(member).post(reverse("datasets:dataset-new", args=[team.slug]), {"file": file})
    assert answer.status_code == 422
    assert b"Name the new dataset" in answer.content
    assert not Dataset.objects.exists()


def test_upload_of_a_table_asks_for_its_columns(client_of, member, team):
    client = client_of(member)
    file = SimpleUploadedFile("sums.csv", b"ask,reply,topic\nTwo plus two?,4,sums\n")
    answer = client.post(reverse("datasets:dataset-new", args=[team.slug]), {"name": "Sums", "file": file})
    assert "/datasets/map/file-" in answer.url
    preview = client.get(answer.url + "&prompt=ask&reference=reply", headers={"HX-Request": "true"})
    assert b">Question</b>" in preview.content
    assert b"Reference answer" in preview.content
    assert b"<html" not in preview.content
    client.post(answer.url, {"prompt": "ask", "reference": "reply"})
    assert DatasetVersion.objects.get().items.get().data == {
        "messages": [{"role": "user", "content": "Two plus two?"}], "reference_answer": "4", "topic": "sums",
    }  # fmt: skip


def test_upload_that_is_no_data_says_what_it_is(client_of, member, team):
    file = SimpleUploadedFile("sums.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    answer = client_of(member).post(
        reverse("datasets:dataset-new", args=[team.slug]), {"name": "Sums", "file": file}, follow=True
    )
    assert b"This is a Git LFS pointer" in answer.content


def test_large_upload_is_imported_in_the_background(client_of, member, team, monkeypatch):
    from datasets import tasks, views
    from rftstudio.core import queueing

    queued = []
    monkeypatch.setattr(views, "IMPORT_AT_ONCE", 10)
    monkeypatch.setattr(queueing, "queue", lambda task, import_id: queued.append(import_id))
    client = client_of(member)
    file = SimpleUploadedFile("sums.jsonl", many(4))
    client.post(reverse("datasets:dataset-new", args=[team.slug]), {"name": "Sums", "file": file})
    version = DatasetVersion.objects.get()
    page = client.get(url("version-detail", version))
    assert b"waiting for a worker" in page.content
    assert b'hx-trigger="every 2s"' in client.get(url("import-progress", version)).content
    tasks.dataset_version_import(queued[0])
    answer = client.get(url("import-progress", version), headers={"HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == url("version-detail", version)


def test_freeze_and_new_version_from_it(client_of, member):
    version, client = import_bytes(member, many(3)), client_of(member)
    page = client.post(url("version-freeze", version), follow=True)
    assert b"New version from this" in page.content
    assert b"Freeze version" not in page.content
    page = client.post(url("version-copy", version), follow=True)
    assert b"grew from" in page.content


def test_freeze_that_is_not_ready_says_why(client_of, member):
    version = import_bytes(member, many(3) + b"{oops\n")
    page = client_of(member).post(url("version-freeze", version), follow=True)
    assert b"1 lines to fix or skip" in page.content
    version.refresh_from_db()
    assert version.status == "draft"


def test_fix_of_a_kind_and_undo(client_of, member):
    chat = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    version, client = import_bytes(member, jsonl(chat, chat | {"n": 1})), client_of(member)
    page = client.get(url("version-detail", version))
    assert b"Move 2 answers to the reference" in page.content
    page = client.post(url("kind-fix", version), {"code": "last_message_assistant"}, follow=True)
    assert b"Undo" in page.content
    assert not version.items.exclude(problem="").exists()
    client.post(url("change-undo", version), {"change": version.changes.get().pk})
    assert version.items.exclude(problem="").count() == 2


def test_line_is_edited_on_its_page(client_of, member):
    version, client = (
        import_bytes(member, many(1) + b'{"messages": [{"role": "user", "content": "b"}]\n'),
        client_of(member),
    )
    problem = version.problems.get()
    address = url("line-edit", version, problem.pk)
    assert client.post(address, {"text": "{"}).status_code == 422
    client.post(address, {"text": problem.text + "}"})
    assert version.items.count() == 2


def test_viewer_may_not_edit_a_line(client_of, member, viewer):
    version = import_bytes(member, many(1) + b"{oops\n")
    address = url("line-edit", version, version.problems.get().pk)
    assert client_of(viewer).post(address, {"text": "{}"}).status_code == 403


def test_pages_walk_every_item_once_forward_and_back(client_of, member):
    version, client = import_bytes(member, many(120)), client_of(member)
    seen, address = [], url("version-detail", version)
    while address:
        context = client.get(address).context
        page = context["page"]
        seen += [item.position for item in page.items]
        address = url("version-detail", version) + f"?after={page.after}" if page.after is not None else None
    assert seen == list(range(120))
    page = client.get(url("version-detail", version) + "?before=100").context["page"]
    assert [item.position for item in page.items] == list(range(50, 100))


def test_search_and_split_filter(client_of, member):
    version = import_bytes(
        member, jsonl(row("alpha", split="train"), row("beta", split="test"), row("alp", split="test"))
    )
    client = client_of(member)
    page = client.get(url("version-detail", version) + "?q=alp*").context["page"]
    assert [item.title for item in page.items] == ["alpha", "alp"]
    page = client.get(url("version-detail", version) + "?q=alp*&split=test").context["page"]
    assert [item.title for item in page.items] == ["alp"]


def test_hostile_text_is_text(client_of, member):
    version = import_bytes(
        member, jsonl(row(HOSTILE, reference_answer=HOSTILE, **{HOSTILE: [HOSTILE]}), {"x": HOSTILE})
    )
    client = client_of(member)
    for address in (
        url("version-detail", version),
        url("item-detail", version, 0),
        url("version-detail", version) + "?tab=fields",
    ):
        page = client.get(address)
        assert b"<script>alert" not in page.content
        assert b'href="javascript' not in page.content
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["inputs/c113_links.jsonl", "inputs/c115_bigint.jsonl", "inputs/c024_lone_surrogate.jsonl",
             "inputs/c026_nul_value.jsonl", "inputs/c015_list_field.jsonl"],
)  # fmt: skip
def test_items_of_case_files_open(client_of, member, path):
    version, client = import_case(member, path), client_of(member)
    for item in version.items.all():
        page = client.get(url("item-detail", version, item.position))
        assert page.status_code == 200
    assert client.get(url("version-detail", version)).status_code == 200
    assert client.get(url("version-detail", version) + "?tab=fields").status_code == 200
    if "bigint" in path:
        assert b"1970670598291982290" in page.content


def test_drawer_gets_the_fragment_alone(client_of, member):
    version = import_bytes(member, many(1))
    page = client_of(member).get(url("item-detail", version, 0), headers={"HX-Request": "true"})
    assert b"<html" not in page.content
    assert b"What is 0 plus 1?" in page.content


def test_compare_shows_what_changed(client_of, member):
    first = import_bytes(member, jsonl(row("a", id="1", topic="x"), row("b", id="2")))
    second = import_bytes(member, jsonl(row("a", id="1", topic="y"), row("c", id="3")), dataset=first.dataset)
    page = client_of(member).get(url("version-compare", second, first.public_id))
    diff = page.context["diff"]
    assert (diff.added, diff.removed, diff.changed, diff.same) == (1, 1, 1, 0)
    assert [(change.name, change.before, change.after) for change in diff.changed_items[0]["fields"]] == [
        ("topic", "x", "y")
    ]


def test_export_by_link_is_the_file(client_of, member):
    content = many(3)
    version = dataset_version_freeze(actor=member, version=import_bytes(member, content))
    client = client_of(member)
    answer = client.get(url("version-export", version, "jsonl"))
    assert b"".join(answer.streaming_content) == content
    assert 'filename="sums-v1.jsonl"' in answer.headers["Content-Disposition"]
    assert client.get(url("version-export", version, "xlsx")).status_code == 400


def test_problem_list_as_csv(client_of, member):
    version = import_bytes(member, many(1) + b"=1+1\n")
    answer = client_of(member).get(url("problems-csv", version))
    lines = io.StringIO(b"".join(answer.streaming_content).decode()).read().splitlines()
    assert lines[1].endswith(",'=1+1")


def test_version_asks_the_floors_above_who_uses_it(client_of, member, stranger):
    evaluation = ready_baseline_of(member)
    version = evaluation.dataset_version
    panel = reverse("jobs:version-panel", args=[member.team.slug, version.public_id])
    assert panel in client_of(member).get(url("version-detail", version) + "?tab=used").content.decode()
    page = client_of(member).get(panel).content.decode()
    assert reverse("evaluations:evaluation-detail", args=[member.team.slug, evaluation.public_id]) in page
    assert client_of(stranger).get(panel).status_code == 404
    rollout = evaluation.batch.rollouts.select_related("item").first()
    place = [member.team.slug, rollout.item.version.public_id, rollout.item.position]
    assert (
        reverse("rollouts:item-panel", args=place)
        in client_of(member).get(reverse("datasets:item-detail", args=place)).content.decode()
    )
    assert rollout.public_id in client_of(member).get(reverse("rollouts:item-panel", args=place)).content.decode()
    assert client_of(stranger).get(reverse("rollouts:item-panel", args=place)).status_code == 404


def test_row_nested_as_deep_as_allowed_is_shown_and_exported(client_of, member, team):
    deep = b'{"messages": [{"role": "user", "content": "q"}], "deep": ' + b"[" * 199 + b"]" * 199 + b"}\n"
    version = import_bytes(member, deep)
    assert version.item_count == 1
    client = client_of(member)
    assert client.get(reverse("datasets:item-detail", args=[team.slug, version.public_id, 0])).status_code == 200
    for name in ("jsonl", "csv", "parquet"):
        answer = client.get(reverse("datasets:version-export", args=[team.slug, version.public_id, name]))
        assert b"".join(answer.streaming_content)
