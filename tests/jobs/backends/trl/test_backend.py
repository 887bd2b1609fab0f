"""What the web side reads of a run's journal while the trainer is writing it."""

import json

from jobs.backends.base import Run
from jobs.backends.trl.backend import TrlBackend


def line(number: int) -> bytes:
    return json.dumps({"seq": number, "at": 0.0, "type": "log", "message": f"line {number}"}).encode() + b"\n"


def test_line_that_is_finished_while_a_chunk_is_taken_in_comes_home_whole(tmp_path):
    """The reader saw its first half at the end of a chunk; the rest arrived before it read on."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(line(1) + line(2)[:20])
    chunks = TrlBackend().poll(Run("ftjob-1", run_dir=str(tmp_path)), 0)
    first = next(chunks)
    with path.open("ab") as journal:
        journal.write(line(2)[20:] + line(3)[:7])
    rest = list(chunks)
    assert [event["seq"] for chunk in [first, *rest] for event in chunk.events] == [1, 2]
    assert [chunk.cursor for chunk in [first, *rest]] == [len(line(1)), len(line(1) + line(2))]
