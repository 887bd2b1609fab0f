"""`manage.py job_launch_files JOB --gpus 8 --nodes 2 --out FOLDER`: the files that train this job on such machines."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.backends.trl.launch_files import SHARDS, VLLM_MODES, LaunchError, Machines, launch_files
from jobs.models import Job


class Command(BaseCommand):
    help = "Write accelerate, vLLM and Slurm files for a job, with a README that says the steps."

    def add_arguments(self, parser) -> None:
        parser.add_argument("job", help="public id, ftjob-…")
        parser.add_argument("--out", type=Path, required=True)
        parser.add_argument("--nodes", type=int, default=1)
        parser.add_argument("--gpus", type=int, default=1, help="of each node")
        parser.add_argument("--vllm", choices=VLLM_MODES[1:], default="")
        parser.add_argument("--shard", choices=SHARDS, default="none")
        parser.add_argument("--cpu", action="store_true", help="processes without GPUs, to rehearse the files")

    def handle(self, *args: Any, **told: Any) -> None:
        job = Job.objects.select_related("base_model").filter(public_id=told["job"]).first()
        if job is None:
            raise CommandError(f"There is no job {told['job']}.")
        wanted = {name: told[name] for name in ("nodes", "gpus", "vllm", "shard", "cpu")}
        try:
            files = launch_files(
                Machines(python=sys.executable, **wanted),
                base_model=job.base_model.model,
                plan=job.plan | {"method": job.method},
            )
        except LaunchError as exc:
            raise CommandError(str(exc)) from exc
        told["out"].mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = told["out"] / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        self.stdout.write(f"Wrote {', '.join(files)} to {told['out']}. README.md says the steps.")
