"""Where the broker's binary and socket are."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rftstudio.ops import broker


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(stat.S_IRWXU)
    return path


def test_server_binary_of_the_machine_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    redis = program(tmp_path, "redis-server")
    assert broker.server_binary() == str(redis)
    valkey = program(tmp_path, "valkey-server")
    assert broker.server_binary() == str(valkey)


def test_without_any_server_queues_are_files(tmp_path, monkeypatch):
    monkeypatch.setattr(broker, "server_binary", lambda: None)
    url = broker.embedded_url(tmp_path)
    assert url == "filesystem://"
    options = broker.transport_options(url, tmp_path, visibility_timeout=900)
    assert options["polling_interval"] == 0.05
    assert Path(options["data_folder_in"]).is_dir()


def test_socket_path_too_long_for_the_kernel_is_shortened(tmp_path):
    assert broker.socket_path(tmp_path) == tmp_path.resolve() / "run" / "broker.sock"
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    assert len(str(broker.socket_path(deep))) <= broker.LONGEST_SOCKET_PATH
    assert broker.socket_path(deep) == broker.socket_path(deep)
    assert broker.socket_path(deep) != broker.socket_path(deep / "other")


def test_answers_is_false_without_a_server(tmp_path):
    assert not broker.answers(tmp_path)


@pytest.mark.parametrize("module", ["broker", "processes", "leash", "pending", "keeper"])
def test_portable_modules_need_only_the_standard_library(module):
    """Settings and trainers read them before anything is installed."""
    source = (
        f"import sys; sys.modules['celery'] = None; import importlib.util as u; [__import__('os')]; {_load(module)}"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _load(module: str) -> str:
    root = Path(broker.__file__).parents[2]
    # A stand-in for the package whose __init__ loads Celery.
    return (
        f"import types; p = types.ModuleType('rftstudio'); p.__path__ = [{str(root / 'rftstudio')!r}]; "
        f"sys.modules['rftstudio'] = p; import rftstudio.ops.{module}"
    )
