"""One machine, no set-up: SQLite, the embedded broker, a secret key kept in var/."""

from rftstudio.settings.base import *  # noqa: F403
from rftstudio.settings.base import STATIC_ROOT, VAR_DIR
from rftstudio.settings.env import kept_secret

SECRET_KEY = kept_secret(VAR_DIR / "secret_key")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
# Static files straight from their folders: nothing to collect before the first page.
WHITENOISE_USE_FINDERS = True
STATIC_ROOT.mkdir(exist_ok=True)
