"""The bench runs and tells; how fast things are is not asserted here."""

import json
import subprocess
import sys
from pathlib import Path

from rftstudio.bench import __main__ as runner
from rftstudio.bench import graders

ROOT = Path(__file__).parents[2]


def test_grader_measures_are_figures(monkeypatch):
    monkeypatch.setattr(graders, "SECONDS", 0.003)
    figures = graders.measures()
    assert all(value > 0 for name, value in figures.items() if name.endswith("_per_second"))
    assert set(figures["similarity"]) == {"bleu", "gleu", "meteor", "rouge_1", "rouge_2", "rouge_l"}
    assert all(
        set(row) == {"grades_per_second", "library_per_second", "ratio"} for row in figures["similarity"].values()
    )


def test_every_room_has_measures():
    for room in runner.ROOMS:
        assert "def measures(" in (ROOT / "rftstudio" / "bench" / f"{room}.py").read_text(), room


def test_unknown_room_is_refused_with_those_there_are():
    done = subprocess.run(
        [sys.executable, "-m", "rftstudio.bench", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "nonsense is none of" in done.stderr


def told_by(monkeypatch, capsys, module) -> dict:
    monkeypatch.setattr(runner, "importlib", type("Stub", (), {"import_module": staticmethod(module)}))
    monkeypatch.setattr("django.core.management.call_command", lambda *args, **kwargs: None)
    monkeypatch.setattr("django.setup", lambda: None)  # it would point the logs at this test's output
    assert runner._measure_here("graders") == 0
    return json.loads(capsys.readouterr().out.partition(runner.MARK)[2])


def test_room_that_misses_something_is_unavailable_with_the_reason(monkeypatch, capsys):
    def missing(name):
        raise ImportError("No module named 'torch'")

    assert told_by(monkeypatch, capsys, missing) == {"unavailable": "No module named 'torch'"}


def test_room_that_breaks_is_told_as_failed(monkeypatch, capsys):
    def broken(name):
        raise ZeroDivisionError("by zero")

    assert told_by(monkeypatch, capsys, broken) == {"failed": "ZeroDivisionError: by zero"}
