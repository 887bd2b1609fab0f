"""Exports, and what comes back when they are imported."""

import csv
import io

import pytest

from datasets import repairs
from datasets.exports import export
from rftstudio.core.errors import UserError
from tests.datasets.helpers import CASES, import_bytes, import_case, jsonl, problems, row

pytestmark = pytest.mark.django_db


def exported(version, file_format: str, split: str = "") -> bytes:
    return b"".join(export(version, file_format, split))


@pytest.mark.parametrize(
    "path",
    [
        "inputs/c001_bom.jsonl", "inputs/c005_blank_lines.jsonl", "inputs/c006_crlf.jsonl", "inputs/c007_u2028.jsonl",
        "inputs/c024_lone_surrogate.jsonl", "inputs/c026_nul_value.jsonl", "inputs/c115_bigint.jsonl",
        "inputs/c123_formula.jsonl", "real/azure-rft/countdown_eval_100.jsonl", "real/azure-rft/zava_rft_test_5.jsonl",
    ],
)  # fmt: skip
def test_unchanged_jsonl_comes_back_byte_for_byte(member, path):
    assert exported(import_case(member, path), "jsonl") == (CASES / path).read_bytes()


def test_no_final_newline_stays_so(member):
    content = jsonl(row("a"), row("b"))[:-1]
    assert exported(import_bytes(member, content), "jsonl") == content


def test_changed_version_exports_its_lines_as_they_are(member):
    version = import_bytes(member, jsonl(row("a"), row("b"), row("a")))
    repairs.items_drop(actor=member, version=version, code="duplicate_question")
    assert exported(version, "jsonl") == jsonl(row("a"), row("b"))


def test_one_split_alone(member):
    version = import_bytes(member, jsonl(row("a", split="train"), row("b", split="test")))
    assert exported(version, "jsonl", "test") == jsonl(row("b", split="test"))


def test_csv_runs_no_formula_and_comes_back_raw(member):
    version = import_case(member, "inputs/c123_formula.jsonl")
    content = exported(version, "csv")
    cells = [cell for line in csv.reader(io.StringIO(content.decode(), newline="")) for cell in line]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
    back = import_bytes(member, content, "export.csv", name="back")
    assert [item.data["note"] for item in back.items.order_by("position")] == [
        item.data["note"] for item in version.items.order_by("position")
    ]
    assert back.content_hash == version.content_hash


def test_csv_keeps_numbers_as_numbers(member):
    version = import_case(member, "inputs/c125_negative.jsonl")
    rows = list(csv.DictReader(io.StringIO(exported(version, "csv").decode(), newline="")))
    assert [line["reward:json"] for line in rows] == ["-1", "-0.5"]


def test_csv_round_trip_keeps_types_splits_and_apostrophes(member):
    version = import_bytes(
        member,
        jsonl(
            row("a", id="x", reference_answer="7", note="'=1", split="train"),
            row("b", id="=y", reference_answer=7, note="''", split="test"),
            row("c", id="z", reference_answer=["7"], flag=None, split="test"),
        ),
    )
    back = import_bytes(member, exported(version, "csv"), "export.csv", name="back")
    assert problems(back) == []
    assert [item.data for item in back.items.order_by("position")] == [
        item.data for item in version.items.order_by("position")
    ]
    assert list(back.items.order_by("position").values_list("split", flat=True)) == ["train", "test", "test"]


def test_csv_with_one_cell_edited_becomes_a_new_dataset(member):
    version = import_bytes(member, jsonl(row("a", reference_answer="x"), row("b", reference_answer="y")))
    edited = exported(version, "csv").replace(b",y,", b",z,")
    back = import_bytes(member, edited, "edited.csv", name="edited")
    assert [item.data["reference_answer"] for item in back.items.order_by("position")] == ["x", "z"]
    assert problems(back) == []


def test_parquet_round_trip_keeps_types_absences_and_splits(member):
    pytest.importorskip("pyarrow")
    rows = [row("a", reference_answer="x", n=1, split="test"), row("b", reference_answer="{", n=None, split="train")]
    version = import_bytes(member, jsonl(*rows, row("c", tags=["t"], split="train")))
    back = import_bytes(member, exported(version, "parquet"), "export.parquet", name="back")
    assert problems(back) == []
    assert [item.data for item in back.items.order_by("position")] == [
        item.data for item in version.items.order_by("position")
    ]
    assert list(back.items.order_by("position").values_list("split", flat=True)) == ["test", "train", "train"]


def test_parquet_round_trip(member):
    pytest.importorskip("pyarrow")
    version = import_bytes(member, jsonl(row("a", reference_answer="x"), row("b", reference_answer="y")))
    back = import_bytes(member, exported(version, "parquet"), "export.parquet", name="back")
    assert [item.data["messages"] for item in back.items.order_by("position")] == [
        item.data["messages"] for item in version.items.order_by("position")
    ]


def test_unknown_format_is_refused(member):
    with pytest.raises(UserError, match="xlsx"):
        export(import_bytes(member, jsonl(row("a"))), "xlsx")
