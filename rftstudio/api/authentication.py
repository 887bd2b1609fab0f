"""`Authorization: Bearer rfts-…` → an Actor on `request.auth`."""

from django.utils import timezone
from rest_framework import authentication, exceptions

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, hash_key


class ApiKeyAuthentication(authentication.BaseAuthentication):
    """Looks the key up by its hash; unknown, expired and revoked keys are refused alike."""

    def authenticate_header(self, request) -> str:
        return "Bearer"

    def authenticate(self, request):
        header = authentication.get_authorization_header(request).decode("latin-1")
        if not header.startswith("Bearer "):
            return None
        key = ApiKey.objects.select_related("team", "acts_as").filter(digest=hash_key(header[7:].strip())).first()
        if key is None or not key.is_usable:
            raise exceptions.AuthenticationFailed("Incorrect API key provided.")
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=timezone.now())
        actor = Actor(team=key.team, role=key.role, user=key.acts_as, api_key=key)
        return KeyUser(actor), actor


class KeyUser:
    """Stands where Django expects a user; the actor is what services take."""

    is_authenticated = True
    is_active = True

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.pk = f"key:{actor.api_key.pk}" if actor.api_key else None
