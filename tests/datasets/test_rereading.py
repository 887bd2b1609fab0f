"""A file that is not UTF-8: how it would read, read it so, and take that back."""

import codecs
import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from datasets import exports, importing, rereading, services
from datasets.formats import encodings
from datasets.models import DatasetVersion, FileImport, Item
from datasets.rereading import candidates_shown, file_reread, import_to_reread
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from tests.datasets.helpers import CASES, import_bytes, import_case, jsonl, problems, row

pytestmark = pytest.mark.django_db

CHINESE = "增值税在哪里征收？货物存放在波兰的仓库里。"
TEXTS = {
    "gb18030": CHINESE,
    "big5": "增稅在哪裡徵收？貨物存放在波蘭的倉庫裡。",
    "cp932": "消費税はどこで課税されますか。",
    "euc_jp": "消費税はどこで課税されますか。",
    "cp949": "부가가치세는 어디에서 과세됩니까?",
    "cp1252": "Où est-ce taxé ? Ärger mit der „Straße“ – 5 €",
    "cp1250": "Gdzie jest opodatkowane? Źródło: książka, żółć",
    "cp1251": "Где платить налог с продажи?",
    "koi8_r": "Где платить налог с продажи?",
}


def _raw(text: str) -> str:
    return "".join(
        f'{{"messages": [{{"role": "user", "content": "{each}"}}], "reference_answer": "{each[:4]}"}}\n'
        for each in (text, "plain letters")
    )


@pytest.mark.parametrize("codec", TEXTS)
def test_likeliest_encoding_is_the_right_one(codec):
    content = _raw(TEXTS[codec]).encode(codec)
    sample = encodings.foreign_sample(io.BytesIO(content))
    best = encodings.candidates(sample)[0]
    assert best.codec == codec
    assert TEXTS[codec] in best.lines[0]
    assert encodings.guess(content.splitlines()[0]) == encodings.ENCODINGS[codec]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_wide_encodings_are_told_apart(codec):
    best = encodings.candidates(_raw("Wo ist die Straße?").encode(codec), is_wide=True)
    assert "Wo ist die Straße?" in best[0].lines[0]
    assert len({tuple(each.lines) for each in best}) == len(best)


@pytest.mark.parametrize("codec", ["gb18030", "utf-16", "cp932"])
def test_recoded_file_reads_and_seeks_like_the_utf8_file(codec):
    text = _raw("消費税はどこで課税されますか。") * 9000
    same, recoded = text.encode(), io.BufferedReader(encodings.Recoded(io.BytesIO(text.encode(codec)), codec))
    assert recoded.read() == same
    for place in (0, 7, 70_000, 69_990, len(same)):
        recoded.seek(place)
        assert recoded.read(20) == same[place : place + 20]


@pytest.mark.parametrize("before", ["", "增1"])
def test_line_longer_than_a_piece_is_judged_whole(before):
    """Signs of two and three bytes, so that one of the two ways cuts a sign where a piece ends."""
    good = f'{{"a": "{before}{"é消" * 60_000}"}}\n'.encode()
    foreign = f'{{"a": "{before}{f"1{CHINESE}" * 3000}"}}\n'.encode("gb18030")
    assert encodings.foreign_sample(io.BytesIO(good)) == b""
    late = b'{"a": "' + b"x" * 200_000 + f'{CHINESE}"}}\n'.encode("gb18030")
    for content in (foreign, good + foreign, late):
        sample = encodings.foreign_sample(io.BytesIO(content + _raw(CHINESE).encode("gb18030")))
        assert encodings.candidates(sample)[0].codec == "gb18030"


@pytest.mark.parametrize("before", ["", "1"])
def test_encoding_of_a_long_text_without_blanks_is_guessed(before):
    line = f'{{"a": "增{before}{CHINESE * 40}"}}'.encode("gb18030")
    assert encodings.guess(line) == encodings.ENCODINGS["gb18030"]


def test_bytes_that_the_encoding_lacks_stay_bad():
    broken = _raw(CHINESE).encode("gb18030") + b'{"a": "\xff"}\n'
    assert encodings.Recoded(io.BytesIO(broken), "gb18030").readall().endswith(b'{"a": "\xff"}\n')


def reread(member, version, encoding: str, run) -> DatasetVersion:
    with run(execute=True):
        file_reread(actor=member, version=version, encoding=encoding)
    version.refresh_from_db()
    return version


def test_gbk_file_is_read_and_the_choice_taken_back(member, django_capture_on_commit_callbacks):
    version = import_case(member, "inputs/c003_gbk.jsonl")
    found = import_to_reread(version)
    assert candidates_shown(found)[0]["codec"] == "gb18030"
    before = problems(version)
    reread(member, version, "gb18030", django_capture_on_commit_callbacks)
    assert (version.status, version.item_count, problems(version)) == (DatasetVersion.Status.DRAFT, 2, [])
    raw = (b"".join(exports.export(version, "jsonl"))).decode()
    assert raw == (CASES / "inputs/c003_gbk.jsonl").read_bytes().decode("gb18030")
    reread(member, version, "", django_capture_on_commit_callbacks)
    assert (version.item_count, problems(version)) == (0, before)
    assert Item.objects.count() == 0


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_utf16_file_that_was_refused_whole_becomes_a_draft(member, name, django_capture_on_commit_callbacks):
    text = _raw("Straße") if name.endswith("l") else "question,answer\nStraße?,ja\nplain letters,no\n"
    version = import_bytes(member, codecs.BOM_UTF16_LE + text.encode("utf-16-le"), name)
    assert version.status == DatasetVersion.Status.FAILED
    reread(member, version, "utf-16", django_capture_on_commit_callbacks)
    assert (version.status, version.item_count) == (DatasetVersion.Status.DRAFT, 2)
    assert version.items.first().title.startswith("Straße")
    other = import_bytes(member, text.encode(), name, name="the same in UTF-8")
    assert version.content_hash == other.content_hash
    reread(member, version, "", django_capture_on_commit_callbacks)
    assert (version.status, version.item_count) == (DatasetVersion.Status.FAILED, 0)
    assert not version.items.exists()


def test_mixed_file_keeps_its_order_and_its_search(member, django_capture_on_commit_callbacks):
    content = _raw("ok") + _raw("été")
    version = import_bytes(member, content.encode("cp1252"))
    assert version.item_count == 3
    reread(member, version, "cp1252", django_capture_on_commit_callbacks)
    assert [item.title for item in version.items.order_by("position")] == [
        "ok",
        "plain letters",
        "été",
        "plain letters",
    ]
    from datasets.pages import item_page

    assert [item.position for item in item_page(version, search="été").items] == [2]


def test_second_file_alone_is_read_again(member, django_capture_on_commit_callbacks):
    version = import_bytes(member, jsonl(row("first")))
    import_bytes(member, _raw("été").encode("cp1252"), "b.jsonl", dataset=version.dataset, add_to=version)
    reread(member, version, "cp1252", django_capture_on_commit_callbacks)
    assert [item.title for item in version.items.order_by("position")] == ["first", "été", "plain letters"]


def test_reading_again_is_refused_after_changes_by_others_and_for_odd_names(member, viewer):
    version = import_bytes(member, _raw("été").encode("cp1252"))
    with pytest.raises(NotAllowed):
        file_reread(actor=viewer, version=version, encoding="cp1252")
    with pytest.raises(UserError, match="no encoding"):
        file_reread(actor=member, version=version, encoding="rot13")
    from datasets import repairs

    repairs.lines_skip(actor=member, version=version)
    with pytest.raises(Conflict, match="changed since"):
        file_reread(actor=member, version=version, encoding="cp1252")


def test_sweep_leaves_alone_what_has_just_begun_to_be_read_again(member, monkeypatch):
    monkeypatch.setattr(rereading, "READ_AT_ONCE", 0)
    version = import_bytes(member, _raw("été").encode("cp1252"))
    long_ago = timezone.now() - timedelta(hours=1)
    FileImport.objects.update(started_at=long_ago, updated_at=long_ago)
    found = file_reread(actor=member, version=version, encoding="cp1252")
    assert services.imports_sweep() == 0
    found.refresh_from_db()
    assert found.started_at > long_ago
    FileImport.objects.update(updated_at=long_ago)
    services._earlier_reading_remove(found)
    assert services.imports_sweep() == 0, "taking out what was read before is work too"


def test_two_workers_do_not_remove_what_the_other_read(member):
    version = import_bytes(member, _raw("été").encode("cp1252"))
    file_reread(actor=member, version=version, encoding="cp1252")
    late = FileImport.objects.select_related("version", "source_file").get()
    services.file_import_run(file_import_id=late.pk)
    with pytest.raises(importing.Overtaken):
        services._earlier_reading_remove(late)
    assert version.items.count() == 2


def test_command_takes_an_encoding(team, tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(_raw(CHINESE).encode("gbk"))
    call_command("dataset_import", str(path), "--team", team.slug, "--dataset", "x", "--encoding", "gb18030", "--json")
    assert '"rows": 2' in capsys.readouterr().out


def test_pages_offer_the_encodings_and_the_way_back(client_of, member, team, django_capture_on_commit_callbacks):
    client = client_of(member)
    version = import_case(member, "inputs/c003_gbk.jsonl")
    page = client.get(reverse("datasets:version-detail", args=[team.slug, version.public_id])).content.decode()
    address = reverse("datasets:encodings", args=[team.slug, version.public_id])
    assert address in page
    shown = client.get(address).content.decode()
    assert "GB18030 or GBK (Chinese)" in shown
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(
            reverse("datasets:file-reread", args=[team.slug, version.public_id]), {"encoding": "gb18030"}, follow=True
        )
    assert "is read as GB18030 or GBK (Chinese)" in answer.content.decode()
    assert version.items.count() == 2
    services.dataset_version_freeze(actor=member, version=version)
    assert client.get(address).status_code == 404, "nothing can be chosen for a frozen version"


def test_page_of_a_file_in_utf8_offers_no_encodings(client_of, member, team):
    version = import_bytes(member, jsonl(row("ok")))
    assert client_of(member).get(reverse("datasets:encodings", args=[team.slug, version.public_id])).status_code == 404
