"""The container files are well formed, and a wrong one is noticed."""

import shutil

import pytest

from rftstudio.ops.make import lint_docker


@pytest.fixture
def copied(tmp_path, monkeypatch):
    folder = tmp_path / "docker"
    shutil.copytree(lint_docker.DOCKER, folder)
    monkeypatch.setattr(lint_docker, "DOCKER", folder)
    return folder


def test_container_files_are_well_formed():
    assert lint_docker.problems() == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    restart: unless-stopped", "    restarted: unless-stopped", "restarted"),
        ("docker/web.Dockerfile", "docker/site.Dockerfile", "site.Dockerfile, which does not exist"),
        ("redis: {condition: service_healthy}", "rodis: {condition: service_healthy}", "rodis, which does not exist"),
    ],
)
def test_wrong_compose_file_is_noticed(copied, old, new, words):
    path = copied / "compose.yaml"
    path.write_text(path.read_text().replace(old, new))
    assert any(words in line for line in lint_docker.problems())


def test_wrong_dockerfile_is_noticed(copied):
    (copied / "web.Dockerfile").write_text("FROM python\nRUN cd /tmp\n")
    assert any("DL3006" in line for line in lint_docker.problems())


def test_every_image_ends_as_an_unprivileged_user():
    for path in sorted(lint_docker.DOCKER.glob("*.Dockerfile")):
        users = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("USER ")]
        assert users, path.name
        assert users[-1] not in {"root", "0"}, path.name


def test_images_pin_what_the_requirements_pin():
    from rftstudio.ops.make import setup

    assert setup.TORCH in (lint_docker.DOCKER / "trainer.Dockerfile").read_text()
