"""The families of error. Whose fault it is decides the family; see docs/architecture.md."""


class StudioError(Exception):
    """An error that a person reads: what happened, where, and how to fix it."""

    status = 400
    code = "invalid_request_error"

    def __init__(self, message: str, *, where: str = "", fix: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix
        if code:
            self.code = code

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.fix) if part)


class UserError(StudioError):
    """The request cannot be done as asked; shown to the person, answered with 4xx."""


class NotAllowed(UserError):
    """The actor is a member but lacks the right."""

    status = 403
    code = "permission_denied"


class NotFound(UserError):
    """Absent, or of another team: the two look the same from outside."""

    status = 404
    code = "not_found"


class Conflict(UserError):
    """The row is not in a state that allows this."""

    status = 409
    code = "conflict"


class QuotaExceeded(UserError):
    """The team may not spend this much now."""

    status = 403
    code = "exceeded_quota"


class UpstreamUnavailable(StudioError):
    """A service we call did not answer; worth retrying."""

    status = 503
    code = "upstream_unavailable"
    retry_after = 0.0  # seconds that the service asked us to wait
    may_have_acted = False  # the answer is what was lost, perhaps, and not the request


class UpstreamRefused(StudioError):
    """A service we call said no; its words are shown and it is not asked again."""

    status = 400
    code = "upstream_refused"
