"""Public files and public fault reports, each with its right outcome."""

import json

import pytest

from datasets.models import DatasetVersion
from datasets.reports import report_full
from tests.datasets.helpers import CASES, import_bytes, import_case, problems, warning

pytestmark = pytest.mark.django_db
EXPECTED = json.loads((CASES / "real" / "expected_rows.json").read_text())
WITH_ROWS = sorted(name for name, facts in EXPECTED.items() if "rows" in facts and (CASES / "real" / name).exists())


def item_values(version) -> list[dict]:
    return [item.data for item in version.items.order_by("position")]


@pytest.mark.parametrize("path", WITH_ROWS)
def test_real_file_gives_its_rows_and_names_its_bad_lines(member, path):
    expected = EXPECTED[path]
    version = import_case(member, f"real/{path}")
    assert version.item_count == expected["rows"]
    lines = {entry["line"] for entry in expected.get("invalid", [])}
    if not path.startswith("openai-evals"):
        found = {line for line, _, code in problems(version) if code not in ("empty_file",)}
        assert found == lines
    present = {name: field["present"] for name, field in version.report["fields"].items()}
    if "keys" in expected and expected["keys"] != {"item": 100}:
        assert present == expected["keys"]


def test_bom_is_stripped_and_no_row_lost(member):
    version = import_case(member, "inputs/c001_bom.jsonl")
    assert version.item_count == 6
    assert "messages" in version.report["fields"]


def test_gbk_is_refused_with_line_and_byte(member):
    version = import_case(member, "inputs/c003_gbk.jsonl")
    assert version.item_count == 0
    first = version.problems.order_by("line").first()
    assert (first.line, first.column, first.code) == (1, 44, "not_utf8")
    assert "byte 43 of the file" in first.message
    assert "GBK" in first.message


def test_blank_lines_are_counted_and_line_numbers_still_match(member):
    content = (CASES / "inputs/c005_blank_lines.jsonl").read_bytes() + b"{oops\n"
    version = import_bytes(member, content)
    assert version.item_count == 6
    assert version.report["skipped_blank"] == 5
    assert problems(version) == [(12, 2, "invalid_json")]


def test_crlf_has_the_hash_of_lf(member):
    windows = import_case(member, "inputs/c006_crlf.jsonl")
    content = (CASES / "inputs/c006_crlf.jsonl").read_bytes().replace(b"\r\n", b"\n")
    unix = import_bytes(member, content, name="unix")
    assert windows.item_count == 6
    assert not any("\r" in item.raw for item in windows.items.all())
    assert windows.content_hash == unix.content_hash


def test_lines_end_at_lf_only(member):
    version = import_case(member, "inputs/c007_u2028.jsonl")
    assert version.item_count == 3
    assert "\u2028" in version.items.get(position=0).raw


def test_array_in_jsonl_becomes_rows(member):
    version = import_case(member, "inputs/c009_array.jsonl")
    assert version.item_count == 3
    assert problems(version) == []
    assert warning(version, "json_array")
    assert "\n" not in version.items.get(position=0).raw


def test_mixed_types_keep_their_types(member):
    version = import_case(member, "inputs/c011_mixed_types.jsonl")
    assert [value["reference_answer"] for value in item_values(version)] == ["7", 7, ["7"]]
    assert version.report["fields"]["reference_answer"]["types"] == ["array", "number", "string"]
    assert warning(version, "mixed_types")["lines"] == [1, 2, 3]


def test_late_text_after_nulls_is_no_mixture(member):
    version = import_case(member, "inputs/c012_late_string.jsonl")
    assert version.item_count == 40
    assert version.report["fields"]["note"]["types"] == ["null", "string"]
    assert warning(version, "mixed_types") is None


def test_words_like_na_stay_words_in_csv(member):
    version = import_case(member, "inputs/c013_na_words.csv")
    assert [value["reference_answer"] for value in item_values(version)] == ["NA", "None", "null", "nan", "N/A", ""]
    assert warning(version, "empty_reference")["lines"] == [7]


def test_lists_and_objects_stay_structure(member):
    values = item_values(import_case(member, "inputs/c015_list_field.jsonl"))
    assert values[0]["sources"] == ["doc-1", "doc-2"]
    assert values[1]["meta"] == {}


def test_empty_references_are_named(member):
    version = import_case(member, "inputs/c016_empty_reference.jsonl")
    assert version.item_count == 3
    assert warning(version, "empty_reference")["lines"] == [1, 2]


def test_nan_is_refused_with_its_line(member):
    version = import_case(member, "inputs/c017_nan_literal.jsonl")
    assert [(line, code) for line, _, code in problems(version)] == [(1, "nan_literal"), (2, "nan_literal")]
    assert version.item_count == 0


def test_doubled_id_names_both_lines(member):
    version = import_case(member, "inputs/c019_dup_ids.jsonl")
    assert version.item_count == 2
    problem = version.problems.get()
    assert (problem.line, problem.code) == (3, "duplicate_id")
    assert "line 1" in problem.message


def test_second_file_does_not_overwrite_the_first(member):
    version = import_case(member, "inputs/c021_part_a.jsonl")
    content = (CASES / "inputs/c021_part_b.jsonl").read_bytes()
    grown = import_bytes(member, content, "b.jsonl", dataset=version.dataset, add_to=version)
    assert grown.pk == version.pk
    assert [item.title for item in grown.items.order_by("position")] == [
        f"{part}{n}" for part in "ab" for n in range(4)
    ]
    assert grown.item_count == 8


def test_lone_surrogate_is_kept_and_shown_as_a_sign(member):
    version = import_case(member, "inputs/c024_lone_surrogate.jsonl")
    item = version.items.get()
    assert "\\ud83d" in item.raw
    assert item.data["reference_answer"] == "\ufffd"
    assert item.title == "emoji \ufffd cut"
    assert warning(version, "lone_surrogate")["lines"] == [1]


def test_nul_is_kept_and_shown_as_a_sign(member):
    version = import_case(member, "inputs/c026_nul_value.jsonl")
    assert version.item_count == 3
    assert item_values(version)[0]["messages"][0]["content"] == "a\u2400b"
    assert warning(version, "nul_character")["lines"] == [1]


def test_normal_forms_are_kept_apart(member):
    values = item_values(import_case(member, "inputs/c030_nfc_nfd.jsonl"))
    assert values[0]["reference_answer"] == "caf\u00e9"
    assert values[1]["reference_answer"] == "cafe\u0301"


def test_big_integer_keeps_all_digits(member):
    version = import_case(member, "inputs/c115_bigint.jsonl")
    item = version.items.get()
    assert item.key == "1970670598291982290"
    assert item.data["id"] == 1970670598291982290


def test_eval_items_are_known_and_lack_messages(member):
    version = import_case(member, "real/azure-rft/countdown_eval_100.jsonl")
    assert warning(version, "eval_items")["count"] == 100
    assert version.items.get(position=0).data == {"target": "89", "nums": "[68, 96, 59, 44]"}
    errors = report_full(version.imports.get())["errors"]
    assert [(error["code"], error["count"]) for error in errors] == [("messages_missing", 100)]


def test_cut_line_is_named_with_its_column(member):
    version = import_case(member, "real/eval-protocol/chinook_tasks.jsonl")
    assert version.item_count == 15
    assert problems(version) == [(16, 1044, "invalid_json")]


def test_chats_that_end_with_the_answer_are_one_summary(member):
    version = import_case(member, "real/eval-protocol/function_calling_13.jsonl")
    errors = report_full(version.imports.get())["errors"]
    assert [(error["code"], error["count"]) for error in errors] == [("last_message_assistant", 13)]


def test_lfs_pointer_is_named(member):
    version = import_case(member, "real/openai-evals/lfs_pointer_samples.jsonl")
    assert version.status == DatasetVersion.Status.FAILED
    problem = version.problems.get()
    assert problem.code == "git_lfs_pointer"
    assert "git lfs pull" in problem.fix


def test_empty_file_is_named(member):
    version = import_case(member, "real/eval-protocol/empty_zero_bytes.jsonl")
    assert version.status == DatasetVersion.Status.FAILED
    assert version.problems.get().code == "empty_file"


def test_bad_tool_schema_is_a_warning(member):
    version = import_case(member, "real/eval-protocol/tool_calling_3.jsonl")
    assert version.item_count == 3
    assert warning(version, "tool_schema")["count"] == 3


def test_parquet_messages_are_messages(member):
    version = import_case(member, "real/parquet/toolcall_train_10_nested_messages.parquet")
    value = version.items.get(position=0).data
    assert value["messages"][-1]["role"] == "user"
    assert isinstance(value["tools"], list)
    assert not version.items.exclude(problem="").exists()
