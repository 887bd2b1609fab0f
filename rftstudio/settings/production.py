"""PostgreSQL, Redis, TLS in front. Every secret comes from the environment."""

from django.core.exceptions import ImproperlyConfigured

from rftstudio.core.logs import logging_config
from rftstudio.settings import env
from rftstudio.settings.base import *  # noqa: F403
from rftstudio.settings.base import CELERY_BROKER_URL, DATABASES, LOG_LEVEL, STUDIO_EMBEDDED_BROKER

if "sqlite3" in DATABASES["default"]["ENGINE"]:
    raise ImproperlyConfigured(
        "DATABASE_URL must name a PostgreSQL database in production: postgres://user:pass@host/name"
    )
if STUDIO_EMBEDDED_BROKER:
    raise ImproperlyConfigured(
        "CELERY_BROKER_URL must name a Redis or Valkey server in production: redis://host:6379/0"
    )

SECRET_KEY = env.text("SECRET_KEY")
ALLOWED_HOSTS = env.names("ALLOWED_HOSTS", [])
CSRF_TRUSTED_ORIGINS = env.names("CSRF_TRUSTED_ORIGINS", [])
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", True)
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # asked by the container runtime inside, without TLS
SECURE_HSTS_SECONDS = env.number("SECURE_HSTS_SECONDS", 31_536_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.flag("SECURE_HSTS_INCLUDE_SUBDOMAINS", False)
SECURE_HSTS_PRELOAD = env.flag("SECURE_HSTS_PRELOAD", False)
# Whether other hosts of the domain speak TLS only is for whoever owns the domain to say, by the two flags above.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_COOKIE_SECURE = env.flag("SESSION_COOKIE_SECURE", True)
CSRF_COOKIE_SECURE = env.flag("CSRF_COOKIE_SECURE", True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # every page asks for a hashed name; halves what is compressed
# Used log-in codes and counts of attempts are known to every web process.
if CELERY_BROKER_URL.partition("://")[0] in {"redis", "rediss"}:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": CELERY_BROKER_URL,
            "KEY_PREFIX": "studio-cache",
        }
    }
LOGGING = logging_config(as_json=True, level=LOG_LEVEL)
