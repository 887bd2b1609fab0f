"""A worker as a process of its own: looks at all jobs until it is killed. `python worker.py RUNS_DIR`, database by URL."""

import os
import sys
import time
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "rftstudio.settings.test"
django.setup()

from django.conf import settings  # noqa: E402

settings.RUNS_DIR = Path(sys.argv[1])
settings.VAR_DIR = Path(sys.argv[1]).parent
settings.STUDIO_TRAINER_COMMAND = [sys.executable, str(Path(__file__).parents[1] / "fakes/fake_trainer.py")]

from jobs import leases, supervision  # noqa: E402

leases.LEASE_SECONDS = float(os.environ.get("LEASE_SECONDS", "2"))
print("ready", flush=True)
while True:
    supervision.jobs_sync()
    time.sleep(0.05)
