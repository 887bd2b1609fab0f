"""A cancel that the train step at work does not see, where the last word cannot be written."""

import subprocess
import sys

SCRIPT = """
import sys, time
from pathlib import Path
from jobs.backends.trl import control, train

def full(*args, **kwargs):
    raise OSError(28, "No space left on device")

control.OBEY_SECONDS = 0
train.finish = full
train.attempt = lambda *args: time.sleep(600)
train.main(Path(sys.argv[1]))
"""


def test_trainer_ends_although_its_last_word_cannot_be_written(tmp_path):
    (tmp_path / "control").write_text("cancel")
    ended = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, "No space left on device" in ended.stderr) == (0, True), ended.stderr
