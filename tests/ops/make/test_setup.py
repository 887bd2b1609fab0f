"""Setting up: once per content of the requirements, never into somebody else's environment."""

import pytest

from rftstudio.ops.make import setup


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A repository with requirements, and every command noted instead of run."""
    monkeypatch.delenv("STUDIO_SKIP_SETUP", raising=False)
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    (tmp_path / "requirements").mkdir()
    for name in ("base.txt", "train.txt", "dev.txt", "uv.txt"):
        (tmp_path / "requirements" / name).write_text(name)
    return tmp_path


@pytest.fixture
def ran(place, monkeypatch):
    return Commands(place, monkeypatch)


class Commands:
    """Commands in order. `venv` makes the interpreter and pip makes uv; those that hold a word of `fails` do not work."""

    def __init__(self, place, monkeypatch) -> None:
        self.place, self.lines, self.fails = place, [], set()
        monkeypatch.setattr(setup.subprocess, "run", self.run)

    def run(self, argv, **kwargs):
        line = " ".join(map(str, argv)).replace(str(self.place), "")
        self.lines.append(line)
        code = 1 if any(word in line for word in self.fails) else 0
        if code == 0:
            binary = self.place / ".venv" / "bin"
            binary.mkdir(parents=True, exist_ok=True)
            (binary / ("uv" if "uv.txt" in line else "python")).touch()
        return type("Done", (), {"returncode": code})


def test_base_is_installed_by_uv_with_hashes_and_only_once(ran):
    setup.main("base")
    assert "-m venv" in ran.lines[0]
    assert "uv.txt" in ran.lines[1]
    assert "--require-hashes -r /requirements/base.txt" in ran.lines[2]
    assert "/bin/uv pip install" in ran.lines[2]
    setup.main("base")
    assert len(ran.lines) == 3


def test_changed_requirements_are_installed_again(ran, place):
    setup.main("base")
    (place / "requirements" / "base.txt").write_text("other")
    setup.main("base")
    assert sum("base.txt" in line for line in ran.lines) == 2


@pytest.mark.parametrize("fails", ["uv.txt", "/bin/uv pip"])
def test_without_uv_pip_installs_the_same(ran, fails):
    ran.fails = {fails}
    setup.main("base")
    assert "-m pip install" in ran.lines[-1]
    assert "--require-hashes -r /requirements/base.txt" in ran.lines[-1]


def test_failure_is_told_and_leaves_no_stamp(ran, place):
    ran.fails = {"base.txt"}
    with pytest.raises(SystemExit, match="ended with 1"):
        setup.main("base")
    assert not (place / ".venv" / ".studio-base").exists()


def test_torch_comes_first_by_pip_with_the_machines_choice(ran, monkeypatch):
    monkeypatch.setenv("STUDIO_TORCH_PIP_ARGS", "--index-url somewhere")
    setup.main("train")
    torch = next(number for number, line in enumerate(ran.lines) if setup.TORCH in line)
    assert "-m pip install" in ran.lines[torch]
    assert ran.lines[torch].endswith("--index-url somewhere")
    assert "--no-deps --require-hashes" in ran.lines[-1]
    assert torch < len(ran.lines) - 1


def test_linked_environment_is_left_alone(ran, place):
    (place / "elsewhere").mkdir()
    (place / ".venv").symlink_to(place / "elsewhere")
    for part in setup.FILES:
        setup.main(part)
    assert not ran.lines
    assert not list((place / "elsewhere").iterdir())


def test_skipping_is_possible(ran, monkeypatch):
    monkeypatch.setenv("STUDIO_SKIP_SETUP", "1")
    setup.main("base")
    assert not ran.lines


@pytest.mark.parametrize("present", setup.BROWSERS)
def test_browser_that_is_there_is_used(ran, monkeypatch, present):
    monkeypatch.setattr(setup.shutil, "which", lambda name: name if name == present else None)
    setup.browser()
    assert not ran.lines


def test_browser_is_installed_only_as_root(ran, monkeypatch, capsys):
    monkeypatch.setattr(setup.shutil, "which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    setup.browser()
    assert not ran.lines
    assert "will be skipped" in capsys.readouterr().out
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    setup.browser()
    assert ran.lines[-1].startswith("apt-get install")


def test_browser_that_cannot_be_installed_is_told(ran, monkeypatch, capsys):
    monkeypatch.setattr(setup.shutil, "which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    ran.fails = {"update"}
    setup.browser()
    assert "apt-get update failed" in capsys.readouterr().out


def test_unknown_part_is_refused(ran):
    with pytest.raises(SystemExit, match="none of base, train, test"):
        setup.main("everything")
