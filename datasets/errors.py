"""This room's errors."""

from rftstudio.core.errors import Conflict


class VersionFrozen(Conflict):
    """Frozen versions never change."""


class VersionNotReady(Conflict):
    """Something still keeps the version from being frozen."""
