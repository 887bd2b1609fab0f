"""Abstract models only; this room has no tables."""

from functools import partial

from django.db import models

from rftstudio.core.ids import new_id


class PublicIdField(models.CharField):
    """An unguessable id with a prefix, made when the row is made."""

    def __init__(self, prefix: str = "", **kwargs) -> None:
        self.prefix = prefix
        kwargs.setdefault("max_length", 64)
        kwargs.setdefault("unique", True)
        kwargs.setdefault("editable", False)
        kwargs.setdefault("default", partial(new_id, prefix))
        super().__init__(**kwargs)

    def get_prep_value(self, value):
        """An id out of an address may hold a NUL, which PostgreSQL takes for an error of ours. No row has it, so none is found."""
        value = super().get_prep_value(value)
        return value.replace("\x00", "\ufffd") if isinstance(value, str) else value

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("default", None)
        kwargs["prefix"] = self.prefix
        return name, path, args, kwargs


class OrderedJSONField(models.JSONField):
    """JSON whose keys keep their order, for recipes and schemas that people and models read.

    PostgreSQL's jsonb sorts keys by length. Its json type keeps the text, at the price of look-ups by what is inside, which
    these columns do not need. SQLite keeps the text anyway.
    """

    def db_type(self, connection) -> str | None:
        return "json" if connection.vendor == "postgresql" else super().db_type(connection)

    def get_db_prep_value(self, value, connection, prepared=False):
        adapted = super().get_db_prep_value(value, connection, prepared)
        if connection.vendor != "postgresql" or value is None:
            return adapted
        from psycopg.types.json import Json, Jsonb

        return Json(adapted.obj, adapted.dumps) if isinstance(adapted, Jsonb) else adapted

    def from_db_value(self, value, expression, connection):
        # Django tells psycopg to leave jsonb as text, and says nothing about json, which therefore comes decoded.
        if connection.vendor == "postgresql":
            return value
        return super().from_db_value(value, expression, connection)


class Timestamped(models.Model):
    """When the row was made and last changed, UTC."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
