"""Who owns rows, who acts, and what they did."""

import hashlib
import secrets
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from rftstudio.core.models import PublicIdField, Timestamped
from rftstudio.teams.managers import UserManager


class User(AbstractUser):
    """A person, who signs in with an e-mail address."""

    username = None
    email = models.EmailField(unique=True)
    is_service = models.BooleanField(default=False, help_text="A service account: owns keys, cannot log in.")
    theme = models.CharField(max_length=8, default="", blank=True, help_text="light, dark, or empty for the system's.")

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: list[str] = []

    objects = UserManager()

    def __str__(self) -> str:
        return self.get_full_name() or self.email


class Role(models.TextChoices):
    OWNER = "owner"
    ENGINEER = "engineer"
    EXPERT = "expert"
    VIEWER = "viewer"


class Team(Timestamped):
    """Owns every row below it and pays for the work."""

    public_id = PublicIdField("team-")
    name = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)
    time_zone = models.CharField(
        max_length=64, default="UTC", help_text="Days and months of cost are cut in this zone."
    )
    members = models.ManyToManyField(User, through="Membership", related_name="teams")

    def __str__(self) -> str:
        return self.name

    @property
    def zone(self) -> ZoneInfo:
        """The team's time zone; UTC when this machine does not know the name."""
        try:
            return ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError):
            return ZoneInfo("UTC")


class Membership(Timestamped):
    """A person's role in a team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_once_per_team")]


def hash_key(secret: str) -> str:
    """Keys have 190 bits of their own, so one SHA-256 is as strong as a slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiKey(Timestamped):
    """A key for automation; only its hash is stored, so it is shown once."""

    PREFIX = "rfts-"

    public_id = PublicIdField("key-")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=80)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.ENGINEER)
    hint = models.CharField(max_length=12, help_text="The last four characters, to tell keys apart.")
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(
        default=list, blank=True, help_text="Rights that the key is narrowed to; empty: all of its role."
    )
    budget_usd = models.DecimalField(
        max_digits=12,
        decimal_places=2,
        null=True,
        blank=True,
        help_text="Dollars a month; empty: the team's quota only.",
    )
    acts_as = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.PROTECT, related_name="+", help_text="Its service account."
    )
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    @classmethod
    def new_secret(cls) -> str:
        return cls.PREFIX + secrets.token_urlsafe(32)

    @property
    def is_usable(self) -> bool:
        """Not revoked, not expired, and its service account, if it has one, is not closed."""
        now = timezone.now()
        if self.acts_as is not None and not self.acts_as.is_active:
            return False
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class Invitation(Timestamped):
    """A link by which a person joins a team. Only its hash is stored; it works once, and for some days."""

    public_id = PublicIdField("invite-")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    @property
    def is_open(self) -> bool:
        return self.accepted_at is None and self.revoked_at is None and self.expires_at > timezone.now()


#: How browsers are recognised; each also names those it descends from, so the order matters.
BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox": "Firefox",
    "Chrome": "Chrome",
    "Safari": "Safari",
    "curl": "curl",
}
SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}


def _named(agent: str, known: dict[str, str]) -> str:
    return next((name for mark, name in known.items() if mark in agent), "")


class UserSession(models.Model):
    """Where a person is logged in, so that they can see it and end it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    agent = models.CharField(max_length=200, blank=True, help_text="What the browser called itself.")
    created_at = models.DateTimeField(auto_now_add=True)

    @property
    def words(self) -> str:
        """Firefox on Linux: enough to know one's own by. The whole is in the title."""
        return " on ".join(part for part in (_named(self.agent, BROWSERS), _named(self.agent, SYSTEMS)) if part)


class TeamOwned(Timestamped):
    """A row that one team owns. Every selector filters on it."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        abstract = True


class AuditEvent(models.Model):
    """One write by one actor. Only ever added: triggers in the database refuse anything else (see `core/guards.py`)."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="audit_events")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    verb = models.CharField(max_length=64, help_text="thing.done, for instance job.launched")
    object_type = models.CharField(max_length=64, blank=True)
    object_id = models.CharField(max_length=64, blank=True)
    data = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["team", "-id"])]
