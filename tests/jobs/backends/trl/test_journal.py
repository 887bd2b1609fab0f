"""The journal: sequence numbers over restarts, half lines, and which rollouts count."""

import json

from jobs.backends.trl.journal import Journal, history_read


def test_journal_goes_on_counting_after_a_restart(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path).write("started", attempt=1, from_step=0, total_steps=2)
    Journal(path).log("info", "again")
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [1, 2]


def test_journal_cuts_off_half_a_line(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path).log("info", "whole")
    with path.open("ab") as file:
        file.write(b'{"seq":2,"type":"ro')
    Journal(path).log("info", "next")
    assert [json.loads(line)["message"] for line in path.read_text().splitlines()] == ["whole", "next"]


def test_journal_of_half_a_line_only_begins_anew(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"seq":1,"ty')
    Journal(path).log("info", "first")
    assert json.loads(path.read_text())["seq"] == 1


def test_rollouts_of_steps_run_again_count_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.write("started", attempt=1, from_step=0, total_steps=3)
    for step in (1, 2):
        journal.write("rollout", phase="train", step=step, record={})
        journal.write("rollout", phase="validation", step=step, record={})
        journal.write("step", step=step)
    journal.write("rollout", phase="train", step=3, record={})
    journal = Journal(path)
    journal.write("started", attempt=2, from_step=1, total_steps=3)
    assert journal.rollouts_up_to(3) == 1
    journal.write("rollout", phase="train", step=2, record={})
    assert journal.rollouts_up_to(3) == 2
    assert history_read(path).rollouts == {1: 1, 2: 1}
    assert history_read(path).steps == {1}


def test_history_of_no_journal_is_empty(tmp_path):
    assert history_read(tmp_path / "none").attempts == 0
