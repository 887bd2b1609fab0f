"""Settings shared by every way of running. `local`, `test` and `production` refine them."""

import shlex
from pathlib import Path

from rftstudio.core.logs import logging_config
from rftstudio.ops import broker
from rftstudio.settings import env

BASE_DIR = Path(__file__).resolve().parents[2]
VAR_DIR = Path(env.text("STUDIO_VAR_DIR", str(BASE_DIR / "var")))
VAR_DIR.mkdir(parents=True, exist_ok=True)

DEBUG = False
LOG_LEVEL = env.text("STUDIO_LOG_LEVEL", "INFO").upper()
LOGGING = logging_config(as_json=False, level=LOG_LEVEL)
ROOT_URLCONF = "rftstudio.urls"
WSGI_APPLICATION = "rftstudio.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "teams.User"
LOGIN_URL = "teams:log-in"
LOGIN_REDIRECT_URL = "teams:home-redirect"
LOGOUT_REDIRECT_URL = "teams:log-in"
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = [
    "rftstudio.console.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "csp",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "drf_spectacular",
    "rftstudio.api.rest.apps.RestConfig",
    "rftstudio.notify.apps.NotifyConfig",
    "rftstudio.core",
    "rftstudio.teams",
    "rftstudio.usage",
    "datasets.apps.DatasetsConfig",
    "graders.apps.GradersConfig",
    "jobs.agents.apps.AgentsConfig",
    "jobs.rollouts.apps.RolloutsConfig",
    "jobs.attribution.apps.AttributionConfig",
    "jobs.evaluations.apps.EvaluationsConfig",
    "jobs.apps.JobsConfig",
    "rftstudio.orders.apps.OrdersConfig",
    "rftstudio.demo",
    "rftstudio.ops",
]

MIDDLEWARE = [
    "rftstudio.core.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "csp.middleware.CSPMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "axes.middleware.AxesMiddleware",
    "rftstudio.api.rest.limits.RateHeaders",
]

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_USERNAME_FORM_FIELD = "username"  # what the log-in form calls the address; else attempts are counted for nobody
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_TEMPLATE = "teams/locked_out.html"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]

# Without a mail server, invitations are handed over as links and lost passwords are reset by an administrator.
EMAIL_HOST = env.text("EMAIL_HOST", "")
EMAIL_PORT = env.number("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", True)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "rft-studio@localhost")
if not EMAIL_HOST:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

# Two-factor log-in and single sign-on are django-allauth's; log-in page, invitations and lost passwords are our own.
ACCOUNT_ADAPTER = "rftstudio.teams.sign_on.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # an invitation is sent to the address, or the provider has verified it
ACCOUNT_EMAIL_NOTIFICATIONS = bool(EMAIL_HOST)
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
ACCOUNT_FORMS = {"reauthenticate": "rftstudio.teams.two_factor.PasswordAgainForm"}
MFA_ADAPTER = "rftstudio.teams.two_factor.MfaAdapter"
MFA_FORMS = {
    "authenticate": "rftstudio.teams.two_factor.CodeForm",
    "reauthenticate": "rftstudio.teams.two_factor.CodeAgainForm",
    "activate_totp": "rftstudio.teams.two_factor.ActivateForm",
}
MFA_TOTP_ISSUER = "RFT Studio"
MFA_TOTP_TOLERANCE = 1  # a phone's clock may be half a minute off

# Whether the console opens only to administrators who log in with a second factor.
STUDIO_CONSOLE_TWO_FACTOR = env.flag("STUDIO_CONSOLE_TWO_FACTOR", False)

STUDIO_OIDC_ISSUER = env.text("STUDIO_OIDC_ISSUER", "")
STUDIO_OIDC_NAME = env.text("STUDIO_OIDC_NAME", "single sign-on")
SOCIALACCOUNT_ADAPTER = "rftstudio.teams.sign_on.SocialAdapter"
# The button is a link: the content policy lets forms post to ourselves only, and browsers hold redirects to that too.
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_PROVIDERS = {}
if STUDIO_OIDC_ISSUER:
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": STUDIO_OIDC_NAME,
                "client_id": env.text("STUDIO_OIDC_CLIENT_ID"),
                "secret": env.text("STUDIO_OIDC_CLIENT_SECRET"),
                "settings": {
                    "server_url": STUDIO_OIDC_ISSUER.rstrip("/"),
                    "verified_email": env.flag("STUDIO_OIDC_TRUST_EMAIL", False),
                },
            }
        ],
    }

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "rftstudio.teams.context.team_context",
                "rftstudio.usage.context.money_context",
            ],
        },
    },
]

# SQLite: a deferred transaction that reads and then writes fails at once, IMMEDIATE waits its turn.
SQLITE_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-20000; "
        "PRAGMA mmap_size=134217728; PRAGMA journal_size_limit=67108864; PRAGMA temp_store=MEMORY;"
    ),
}
DATABASES = {"default": env.database("DATABASE_URL", f"sqlite:///{VAR_DIR / 'studio.sqlite3'}")}
if "sqlite3" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["ENGINE"] = "rftstudio.core.sqlite3"  # Django's own, with writers that queue
    DATABASES["default"]["OPTIONS"] = SQLITE_OPTIONS
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(env.text("STUDIO_STATIC_ROOT", str(VAR_DIR / "static")))
MEDIA_ROOT = VAR_DIR / "media"
RUNS_DIR = VAR_DIR / "runs"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'self'"],
        "frame-ancestors": ["'none'"],
    },
}
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

STUDIO_EMBEDDED_BROKER = not env.text("CELERY_BROKER_URL", "")
CELERY_BROKER_URL = env.text("CELERY_BROKER_URL", "") or broker.embedded_url(VAR_DIR)
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A broker that is away makes a publish fail within seconds; the sweep publishes again.
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = broker.transport_options(
    CELERY_BROKER_URL, VAR_DIR, visibility_timeout=env.number("STUDIO_VISIBILITY_TIMEOUT", 300)
)

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": ["rftstudio.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["rftstudio.api.rest.limits.KeyThrottle"],
    "EXCEPTION_HANDLER": "rftstudio.api.errors.exception_handler",
}
# Requests a key may make in a minute at /api and /v1 together; 0 lifts the limit.
STUDIO_API_REQUESTS_PER_MINUTE = env.number("STUDIO_API_REQUESTS_PER_MINUTE", 1200)
SPECTACULAR_SETTINGS = {
    "TITLE": "RFT Studio",
    "VERSION": "1",
    "DESCRIPTION": "`/api` is Studio's own door, `/v1` the OpenAI-compatible one. The guide is in docs/api.md.",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/(api|v1)",
    "COMPONENT_SPLIT_REQUEST": False,
    "POSTPROCESSING_HOOKS": [
        "rftstudio.api.schema.refusals_add",
        "rftstudio.api.schema.unknown_refused",
    ],
}

# Hosts that outbound calls may reach although they are private: tool servers on this network, for instance.
STUDIO_ALLOWED_PRIVATE_HOSTS = env.names("STUDIO_ALLOWED_PRIVATE_HOSTS", [])

# Our address as a hosted trainer sees it; without it such a trainer cannot call our tools and graders.
STUDIO_PUBLIC_URL = env.text("STUDIO_PUBLIC_URL", "")
# How many self-hosted jobs train at once, how often one that died is started again, and with which command.
STUDIO_TRAINER_SLOTS = env.number("STUDIO_TRAINER_SLOTS", 1)
STUDIO_TRAINER_RESTARTS = env.number("STUDIO_TRAINER_RESTARTS", 3)
STUDIO_TRAINER_COMMAND = shlex.split(env.text("STUDIO_TRAINER_COMMAND", ""))

# Where graders find the team's judge models: they stand left of the agents room and may not import it.
STUDIO_JUDGE_SOURCE = "rftstudio.judges.judge_endpoint"
STUDIO_JUDGE_NAMES = "rftstudio.judges.judge_names"
# Where they find stored rollouts to test against, for the same reason.
STUDIO_SAMPLE_SOURCE = "rftstudio.stored_samples.stored_samples"
# Where the page of costs finds what reward was had for the money.
STUDIO_REWARD_SOURCE = "rftstudio.reward_points.reward_points"
# Programs that may be run as MCP servers over their standard input; none unless the operator names them.
STUDIO_MCP_COMMANDS = env.names("STUDIO_MCP_COMMANDS", [])
