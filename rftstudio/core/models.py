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

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("default", None)
        kwargs["prefix"] = self.prefix
        return name, path, args, kwargs


class Timestamped(models.Model):
    """When the row was made and last changed, UTC."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
