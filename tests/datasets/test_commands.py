"""`manage.py dataset_import`, as scripts call it."""

import json

import pytest
from django.core.management import call_command

from datasets.models import Dataset, DatasetVersion
from datasets.pages import split_coverage
from datasets.selectors import split_counts
from datasets.services import dataset_version_freeze
from rftstudio.teams.actor import system_actor
from rftstudio.teams.models import Team
from tests.datasets.helpers import CASES, jsonl, row

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(team, tmp_path, capsys):
    def inner(content: bytes | str, *options: str, name: str = "rows.jsonl", dataset: str = "Sums") -> tuple[dict, int]:
        path = CASES / content if isinstance(content, str) else tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        code = 0
        try:
            call_command("dataset_import", str(path), "--team", team.slug, "--dataset", dataset, "--json", *options)
        except SystemExit as exc:
            code = exc.code
        return json.loads(capsys.readouterr().out), code

    return inner


def test_clean_file_prints_the_report_and_exits_0(run):
    report, code = run("inputs/c005_blank_lines.jsonl")
    assert code == 0
    assert list(report) == ["rows", "skipped_blank", "errors", "warnings", "fields", "version", "content_hash"]
    assert (report["rows"], report["skipped_blank"], report["errors"]) == (6, 5, [])
    assert report["fields"]["reference_answer"] == {"types": ["string"], "present": 6}
    assert DatasetVersion.objects.get().public_id == report["version"]


def test_refused_line_exits_1_with_its_place_and_fix(run):
    report, code = run("inputs/c019_dup_ids.jsonl")
    assert code == 1
    error = report["errors"][0]
    assert (report["rows"], error["line"], error["code"]) == (2, 3, "duplicate_id")
    assert error["fix"]


def test_mapping_makes_a_conversation_of_columns(run):
    report, code = run("real/eval-protocol/gsm8k_5.jsonl", "--map", "prompt=user_query,reference=ground_truth_for_eval")
    assert (report["rows"], report["errors"], code) == (5, [], 0)
    assert set(report["fields"]) == {"id", "messages", "reference_answer"}


def test_train_and_validation_files_go_to_their_sides(run):
    run("real/azure-rft/toolcall_train_10.jsonl")
    report, code = run("real/azure-rft/toolcall_valid_10.jsonl", "--split", "validation")
    version = DatasetVersion.objects.get()
    assert (report["rows"], code, report["warnings"]) == (10, 0, [])
    assert split_counts(version) == {"train": 10, "validation": 10}
    assert split_coverage(version)["reference_tool_args"] == "train 0 of 10, validation 10 of 10"
    refused, code = run("inputs/c001_bom.jsonl", "--split", "dev", dataset="Other")
    assert (code, refused["errors"][0]["code"]) == (1, "split_refused")


def test_bad_mapping_is_refused_in_words(run):
    report, code = run(jsonl(row()), "--map", "reference=a")
    assert code == 1
    assert "prompt=COLUMN" in report["errors"][0]["fix"]


def test_second_file_grows_the_draft_and_reports_itself(run):
    run("inputs/c021_part_a.jsonl")
    report, code = run("inputs/c021_part_b.jsonl")
    assert (report["rows"], code) == (4, 0)
    assert DatasetVersion.objects.get().items.count() == 8
    other, _ = run("inputs/c021_part_b.jsonl", dataset="Other")
    assert other["content_hash"] == report["content_hash"]


def test_same_file_again_is_not_imported_twice(run):
    first, _ = run("inputs/c021_part_a.jsonl")
    again, _ = run("inputs/c021_part_a.jsonl")
    assert (again["rows"], again["content_hash"]) == (first["rows"], first["content_hash"])
    assert DatasetVersion.objects.get().items.count() == 4
    assert again["warnings"][-1]["code"] == "already_imported"


def test_file_after_a_frozen_version_starts_the_next_one(run, team):
    run("inputs/c021_part_a.jsonl")
    dataset_version_freeze(actor=system_actor(team), version=DatasetVersion.objects.get())
    run("inputs/c021_part_b.jsonl")
    assert [version.items.count() for version in DatasetVersion.objects.order_by("number")] == [4, 8]


def test_file_that_is_no_data_is_named(run):
    report, code = run("real/openai-evals/lfs_pointer_samples.jsonl")
    assert code == 1
    assert [error["code"] for error in report["errors"]] == ["git_lfs_pointer"]


def test_freeze_option_freezes(run):
    run(jsonl(row("a"), row("b")), "--freeze")
    assert Dataset.objects.get().versions.get().status == DatasetVersion.Status.FROZEN


def test_what_cannot_even_be_read_is_a_report_too(run, capsys, tmp_path):
    for path, team, message in (
        (tmp_path, "t", "no team"),
        (tmp_path / "none.jsonl", "", "does not exist"),
        (tmp_path, "", "a folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            call_command(
                "dataset_import", str(path), "--team", team or Team.objects.get().slug, "--dataset", "x", "--json"
            )
        report = json.loads(capsys.readouterr().out)
        assert (ended.value.code, report["rows"]) == (1, 0)
        assert message in report["errors"][0]["message"]
        assert report["errors"][0]["fix"]


def test_table_without_rows_is_named(run):
    report, code = run(b"question,answer\n", name="sums.csv")
    assert (code, [error["code"] for error in report["errors"]]) == (1, ["empty_file"])


def test_unknown_splits_are_told_and_the_usual_short_names_taken(run):
    rows = [row(split="dev"), row("b", split="train"), row("c", split="holdout")]
    report, _ = run(jsonl(*rows))
    assert [(note["code"], note["lines"]) for note in report["warnings"]][0] == ("split_unknown", [3])
    assert split_counts(DatasetVersion.objects.get()) == {"train": 3}
    run(jsonl(*rows[:2]), dataset="Other")
    assert split_counts(DatasetVersion.objects.last()) == {"train": 1, "validation": 1}
