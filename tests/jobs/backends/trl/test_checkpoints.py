"""Checkpoint folders: whole or not, best, kept, gone."""

import pytest

from jobs.backends.trl.checkpoints import (
    MARKER,
    checkpoint_best,
    checkpoint_seal,
    checkpoints_prune,
    checkpoints_whole,
    weights_digest,
)


def saved(folder, step, reward=None, *, seal=True):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"weights %d" % step)
    (path / "trainer_state.json").write_text("{}")
    (path / "model.safetensors").chmod(0o600)
    if seal:
        checkpoint_seal(path, step=step, validation_reward=reward, metrics={})
    return path


def test_only_sealed_folders_are_whole(tmp_path):
    saved(tmp_path, 2)
    saved(tmp_path, 4, seal=False)
    (saved(tmp_path, 6) / "trainer_state.json").unlink()
    broken = saved(tmp_path, 8)
    (broken / MARKER).write_text("{")
    assert [kept.step for kept in checkpoints_whole(tmp_path)] == [2]


def test_newest_is_by_number_not_by_name(tmp_path):
    for step in (10, 9, 100):
        saved(tmp_path, step)
    assert [kept.step for kept in checkpoints_whole(tmp_path)] == [9, 10, 100]


def test_prune_keeps_the_best_and_the_last(tmp_path):
    for step, reward in {1: 0.9, 2: 0.2, 3: 0.8, 4: 0.7, 5: None}.items():
        saved(tmp_path, step, reward)
    saved(tmp_path, 6, seal=False)
    gone = checkpoints_prune(tmp_path, 3)
    assert {path.name for path in gone} == {"checkpoint-2", "checkpoint-6"}
    assert [kept.step for kept in checkpoints_whole(tmp_path)] == [1, 3, 4, 5]
    assert checkpoint_best(checkpoints_whole(tmp_path)).step == 1


def test_best_of_equals_is_the_latest(tmp_path):
    for step in (1, 2):
        saved(tmp_path, step, 0.5)
    assert checkpoint_best(checkpoints_whole(tmp_path)).step == 2


def test_best_of_none_is_none(tmp_path):
    assert checkpoint_best(checkpoints_whole(tmp_path)) is None


def test_sealed_weights_can_be_read_by_others(tmp_path):
    assert (saved(tmp_path, 1) / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_digest_follows_the_weights(tmp_path):
    first, second = saved(tmp_path / "a", 1), saved(tmp_path / "b", 2)
    assert weights_digest(first) != weights_digest(second)
    assert weights_digest(first) == checkpoints_whole(tmp_path / "a")[0].digest


@pytest.mark.parametrize("keep", [1, 2])
def test_prune_of_an_empty_folder_does_nothing(tmp_path, keep):
    assert checkpoints_prune(tmp_path, keep) == []
