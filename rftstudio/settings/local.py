"""One machine, no set-up: SQLite, the embedded broker, a secret key kept in var/."""

import secrets

from rftstudio.settings.base import *  # noqa: F403
from rftstudio.settings.base import VAR_DIR

_key_file = VAR_DIR / "secret_key"
if not _key_file.exists():
    _key_file.touch(mode=0o600)
    _key_file.write_text(secrets.token_urlsafe(50))
SECRET_KEY = _key_file.read_text()
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
# Static files straight from their folders: nothing to collect before the first page.
WHITENOISE_USE_FINDERS = True
