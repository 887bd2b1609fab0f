"""What a process of Studio loads when it starts. Every worker pays for it in seconds and memory."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {
    "nltk",
    "openai",
    "pandas",
    "plotly",
    "pyarrow",
    "sacrebleu",
    "scipy",
    "sklearn",
    "torch",
    "transformers",
    "mcp",
}


def test_starting_loads_no_heavy_library():
    script = (
        "import sys, django; django.setup(); import rftstudio.urls; "
        "from rftstudio.celery import app; app.loader.import_default_modules(); print(*sys.modules)"
    )
    env = {"DJANGO_SETTINGS_MODULE": "rftstudio.settings.test", "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert HEAVY & {name.partition(".")[0] for name in done.stdout.split()} == set()
