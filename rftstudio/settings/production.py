"""PostgreSQL, Redis, TLS in front. Every secret comes from the environment."""

from rftstudio.settings import env
from rftstudio.settings.base import *  # noqa: F403

SECRET_KEY = env.text("SECRET_KEY")
ALLOWED_HOSTS = env.names("ALLOWED_HOSTS", [])
CSRF_TRUSTED_ORIGINS = env.names("CSRF_TRUSTED_ORIGINS", [])
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", True)
SECURE_HSTS_SECONDS = env.number("SECURE_HSTS_SECONDS", 31_536_000)
SESSION_COOKIE_SECURE = env.flag("SESSION_COOKIE_SECURE", True)
CSRF_COOKIE_SECURE = env.flag("CSRF_COOKIE_SECURE", True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
