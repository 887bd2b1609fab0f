"""Runs Django's deployment check under the production settings, with an environment made up for it."""

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="studio-check-") as folder:
        made_up = {
            "DJANGO_SETTINGS_MODULE": "rftstudio.settings.production",
            "SECRET_KEY": secrets.token_urlsafe(50),
            "ALLOWED_HOSTS": "studio.example.com",
            "DATABASE_URL": "postgres://studio:studio@localhost/studio",
            "CELERY_BROKER_URL": "redis://localhost/0",
            "STUDIO_VAR_DIR": folder,
        }
        argv = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
        sys.exit(subprocess.run(argv, cwd=ROOT, env={**os.environ, **made_up}, check=False).returncode)
