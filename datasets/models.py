"""Uploaded bytes, named lines of versions, and the items in them."""

import json
from typing import Any

from django.db import models

from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class SourceFile(TeamOwned):
    """Uploaded bytes, kept as they came."""

    public_id = PublicIdField("file-")
    filename = models.CharField(max_length=255)
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    purpose = models.CharField(max_length=32, default="fine-tune")
    content = models.FileField(upload_to="source_files/%Y/%m/")

    class Meta:
        indexes = [models.Index(fields=["team", "-id"])]


class Dataset(TeamOwned):
    """A named line of versions."""

    public_id = PublicIdField("dset-")
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=120)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "slug"], name="dataset_slug_once_per_team")]

    def __str__(self) -> str:
        return self.name


class Split(models.TextChoices):
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class DatasetVersion(TeamOwned):
    """One numbered content. Frozen versions never change; runs point at them."""

    class Status(models.TextChoices):
        IMPORTING = "importing"
        DRAFT = "draft"
        FROZEN = "frozen"
        FAILED = "failed"

    public_id = PublicIdField("dver-")
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.DRAFT)
    source_file = models.ForeignKey(SourceFile, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    item_count = models.PositiveIntegerField(default=0)
    content_hash = models.CharField(max_length=64, blank=True, help_text="SHA-256 over the items in order.")
    report = models.JSONField(
        default=dict, blank=True, help_text="What the import found: counts, errors, warnings, fields."
    )
    stats = models.JSONField(default=dict, blank=True, help_text="Statistics shown on the page, computed once.")
    progress = models.JSONField(default=dict, blank=True, help_text="Rows and bytes read, for a running import.")
    frozen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "number"], name="version_number_once")]

    def __str__(self) -> str:
        return f"{self.dataset.name}, version {self.number}"


class Item(models.Model):
    """One task: one row of a version. `raw` is the JSON object exactly as it came, so exports are byte for byte."""

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField(help_text="0-based place in the version.")
    line = models.PositiveIntegerField(default=0, help_text="1-based line in the source file; 0 when there is none.")
    key = models.CharField(
        max_length=200, help_text="The row's own id, or one made from its position; unique in the version."
    )
    title = models.CharField(max_length=200, blank=True, help_text="Start of the last user message, for lists.")
    split = models.CharField(max_length=12, choices=Split.choices, default=Split.TRAIN)
    raw = models.TextField()
    digest = models.CharField(max_length=64, help_text="SHA-256 of the row's canonical content.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "position"], name="item_position_once"),
            models.UniqueConstraint(fields=["version", "key"], name="item_key_once"),
        ]
        indexes = [models.Index(fields=["version", "split", "position"])]

    @property
    def data(self) -> dict[str, Any]:
        """The row as Python values. Big integers keep every digit."""
        return json.loads(self.raw)
