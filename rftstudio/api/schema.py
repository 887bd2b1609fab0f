"""What the OpenAPI description says beyond its operations: our key, and the refusals that every operation may answer."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import serializers

_PROBLEM = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, for a person."},
        "code": {"type": "string", "description": "What happened, for a program."},
        "where": {"type": ["string", "null"], "description": "The field or parameter at fault."},
        "fix": {"type": ["string", "null"], "description": "How to mend it."},
        "errors": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        "request_id": {"type": "string"},
    },
    "example": {
        "type": "about:blank", "title": "Conflict", "status": 409, "detail": "The version is frozen.",
        "code": "version_frozen", "where": None, "fix": "Make a new version from it and change that.", "errors": [],
        "request_id": "req_3f1Kq8ZtWm1Xy5bRd0Ls",
    },
}  # fmt: skip
_ENVELOPE = {
    "type": "object",
    "description": "The error envelope of the OpenAI API.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_SAID = {
    "400": "The request cannot be done as asked: what, where and how to mend it.",
    "401": "No usable API key.",
    "403": "The key or person lacks the right, or money may not be spent.",
    "404": "Absent, or of another team: the two look the same.",
    "405": "The method is not offered here.",
    "406": "Only JSON is answered.",
    "409": "The thing is not in a state that allows this.",
    "412": "The thing has changed since it was read (If-Match).",
    "413": "The body is too large.",
    "415": "The body has another type than asked for.",
    "422": "The Idempotency-Key was used for another request.",
    "429": "Too many requests this minute; see Retry-After.",
    "503": "A service that Studio calls did not answer; worth retrying.",
}
_WRITES = {"post", "put", "patch", "delete"}
_OF_WRITES = {"412", "413", "415", "422"}


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = "rftstudio.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema) -> dict:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "rfts-…"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "rftstudio.api.rest.authentication.TeamSession"
    name = "session"

    def get_security_definition(self, auto_schema) -> dict:
        return {
            "type": "apiKey", "in": "header", "name": "X-Team",
            "description": "A logged-in person acting for the team with this short name; the docs page sends it.",
        }  # fmt: skip


def refusals_add(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Every operation says how it may refuse: problem details under /api, the reference's envelope under /v1."""
    components = result.setdefault("components", {})
    components.setdefault("schemas", {}).update({"Problem": _PROBLEM, "ErrorEnvelope": _ENVELOPE})
    components["responses"] = {
        f"{name}{status}": {
            "description": text,
            "content": {kind: {"schema": {"$ref": f"#/components/schemas/{name}"}}},
        }
        for name, kind in (("Problem", "application/problem+json"), ("ErrorEnvelope", "application/json"))
        for status, text in _SAID.items()
    }
    for path, methods in result["paths"].items():
        name = "Problem" if path.startswith("/api/") else "ErrorEnvelope"
        for method, operation in methods.items():
            for status in _SAID if method in _WRITES else _SAID.keys() - _OF_WRITES:
                operation["responses"].setdefault(status, {"$ref": f"#/components/responses/{name}{status}"})
            operation["tags"] = [path.split("/")[2] if path.startswith("/api/") else "v1"]
    return result


def unknown_refused(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Bodies under /api refuse fields they do not know, so their schemas say so."""
    from rftstudio.api.rest.wire import Wanted

    names = {one.__name__ for one in _all_below(Wanted)}
    for name, schema in result.get("components", {}).get("schemas", {}).items():
        if name in names and schema.get("type") == "object":
            schema["additionalProperties"] = False
    return result


def _all_below(parent: type[serializers.Serializer]) -> list[type[serializers.Serializer]]:
    found: list[type[serializers.Serializer]] = []
    for child in parent.__subclasses__():
        found += [child, *_all_below(child)]
    return found
