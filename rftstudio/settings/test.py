"""What the tests run with. Needs no environment at all; DATABASE_URL may name a real PostgreSQL."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from rftstudio.settings.base import *  # noqa: F403
from rftstudio.settings.base import DATABASES


def _leave_nothing(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not when a forked child ends
        shutil.rmtree(folder, ignore_errors=True)


SECRET_KEY = "a key for tests only, never used to serve"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AXES_ENABLED = False
_scratch = Path(tempfile.mkdtemp(prefix="studio-test-"))
atexit.register(_leave_nothing, _scratch, os.getpid())
VAR_DIR = _scratch
MEDIA_ROOT = _scratch / "media"
RUNS_DIR = _scratch / "runs"
STATIC_ROOT = _scratch / "static"
STATIC_ROOT.mkdir()
WHITENOISE_USE_FINDERS = True
# Looked up when asked for: every test client begins anew and would list all static files first.
WHITENOISE_AUTOREFRESH = True
# A file, not :memory:, because live-server and thread tests share it between connections.
if "sqlite3" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["TEST"] = {"NAME": str(_scratch / "test.sqlite3")}
CELERY_TASK_ALWAYS_EAGER = False
CELERY_BROKER_URL = "memory://"
