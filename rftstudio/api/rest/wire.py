"""Bases of the wire shapes: what is answered (`Wire`), and what is taken (`Wanted`), which refuses what it does not know."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers


class Wire(serializers.Serializer):
    """What is answered. `example` stands in the schema and is checked against it by a test."""

    example: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._spectacular_annotation = {"component_name": cls.__name__.removesuffix("Wire")}


class Row(Wire):
    """A thing with a public id."""

    id = serializers.CharField(source="public_id")
    created_at = serializers.DateTimeField()


class Wanted(serializers.Serializer):
    """What is taken. A field that it does not know is refused, never dropped."""

    example: ClassVar[dict[str, Any] | None] = None

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            known = ", ".join(sorted(self.fields))
            raise serializers.ValidationError(
                {name: [f"There is no field {name!r}. Known: {known}."] for name in unknown}
            )
        return super().to_internal_value(data)


class Empty(Wanted):
    """No fields: the address says it all. A body may be left out."""

    example: ClassVar[dict[str, Any] | None] = {}


@extend_schema_field({"type": "object", "additionalProperties": {}})
class AnyObject(serializers.JSONField):
    """A JSON object of the caller's own making."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Expected a JSON object.")
        return super().to_internal_value(data)


def money(**more: Any) -> serializers.DecimalField:
    """Dollars, as text so that no digit is lost."""
    return serializers.DecimalField(max_digits=20, decimal_places=8, **more)


def example_id(prefix: str) -> str:
    return f"{prefix}Kq3v8ZtWm1Xy5bRd0LsP"
