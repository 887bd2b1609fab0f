"""Checks the container files without a container engine: hadolint for each Dockerfile, the compose schema for the rest."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from compose_spec import PyCompose

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"


def problems() -> list[str]:
    return [*_dockerfile_problems(), *_compose_problems()]


def _dockerfile_problems() -> list[str]:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        return ["hadolint is not installed; `make setup-test` brings it"]
    files = sorted(DOCKER.glob("*.Dockerfile"))
    done = subprocess.run(
        [hadolint, "--no-color", "--config", str(DOCKER / "hadolint.yaml"), *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def _compose_problems() -> list[str]:
    path = DOCKER / "compose.yaml"
    content = yaml.safe_load(path.read_text())
    known = {name: part for name, part in content.items() if not name.startswith("x-")}
    try:
        PyCompose.from_yaml(yaml.safe_dump(known, sort_keys=False)).to_spec()
    except (ValueError, TypeError) as exc:
        return [f"{path.name}: {line}" for line in str(exc).splitlines()]
    found = []
    for name, service in content["services"].items():
        build = service.get("build")
        if build and not (DOCKER / build["context"] / build["dockerfile"]).exists():
            found.append(f"{path.name}: service {name} builds from {build['dockerfile']}, which does not exist")
        missing = set(service.get("depends_on", {})) - set(content["services"])
        found += [f"{path.name}: service {name} depends on {other}, which does not exist" for other in sorted(missing)]
    return found


if __name__ == "__main__":
    lines = problems()
    print("\n".join(lines) if lines else "docker: Dockerfiles and compose file are well formed")
    sys.exit(1 if lines else 0)
