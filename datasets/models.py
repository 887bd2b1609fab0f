"""Uploaded bytes, named lines of versions, and the items in them."""

from typing import Any

from django.db import models

from datasets.formats.encodings import ENCODINGS
from datasets.formats.eval_items import unwrap
from datasets.formats.strict_json import loads_showable
from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class SourceFile(TeamOwned):
    """Uploaded bytes, kept as they came."""

    RESULTS = "fine-tune-results"  # the purpose of files that tell of an ended job

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
    grew_from = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Copied from this version.",
    )

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
    question_hash = models.BigIntegerField(
        default=0, help_text="Equal for equal conversations, whatever their other fields; 0 without messages."
    )
    problem = models.CharField(
        max_length=32, blank=True, help_text="Code of what keeps it from being trained on; see row_checks.FAULTS."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "position"], name="item_position_once"),
            models.UniqueConstraint(fields=["version", "key"], name="item_key_once"),
        ]
        indexes = [
            models.Index(fields=["version", "split", "position"]),
            models.Index(fields=["version", "problem"], condition=~models.Q(problem=""), name="item_problem"),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def data(self) -> dict[str, Any]:
        """The row as Python values: eval wrapper taken off, big integers whole, NUL and lone surrogates made visible."""
        return unwrap(loads_showable(self.raw))


class FileImport(models.Model):
    """One source file read into a version: how far it came, and what it found."""

    class Status(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="imports")
    source_file = models.ForeignKey(SourceFile, on_delete=models.PROTECT, related_name="+")
    mapping = models.JSONField(default=dict, blank=True, help_text="Columns that become messages; see row_mapping.")
    split = models.CharField(
        max_length=12, choices=Split.choices, blank=True, help_text="Where every row goes; empty: as the rows say."
    )
    encoding = models.CharField(
        max_length=20, blank=True, help_text="In which the file is read, when a person said that it is not UTF-8."
    )
    facts = models.JSONField(default=dict, blank=True, help_text="Format, byte order mark, line end, delimiter.")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.RUNNING)
    records = models.BigIntegerField(default=0, help_text="Records read and stored; a writer must find it unchanged.")
    offset = models.BigIntegerField(default=0, help_text="Bytes read and stored, for text that can be sought.")
    line = models.BigIntegerField(default=0, help_text="Lines read and stored.")
    first_position = models.PositiveIntegerField(default=0, help_text="Position of its first item in the version.")
    item_count = models.PositiveIntegerField(default=0)
    content_hash = models.CharField(max_length=64, blank=True, help_text="Over the items of this file alone.")
    stats = models.JSONField(default=dict, blank=True, help_text="row_stats.Stats so far.")
    report = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["pk"]

    @property
    def encoding_label(self) -> str:
        return ENCODINGS.get(self.encoding, self.encoding)


class ChangeSet(models.Model):
    """One change of a draft by one person: a fix for a kind of fault, an edit, a label written. It can be undone."""

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="changes")
    verb = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    made_by = models.CharField(max_length=200, blank=True)
    count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]


class ItemChange(models.Model):
    """An item's text before and after. Without `raw_before` the change made the item, without `raw_after` removed it."""

    change = models.ForeignKey(ChangeSet, on_delete=models.CASCADE, related_name="items")
    item = models.ForeignKey(Item, null=True, on_delete=models.SET_NULL, related_name="changes")
    key = models.CharField(max_length=200, default="")
    position = models.PositiveIntegerField(default=0)
    line = models.PositiveIntegerField(default=0)
    split = models.CharField(max_length=12, choices=Split.choices, default=Split.TRAIN)
    raw_before = models.TextField(blank=True)
    raw_after = models.TextField(blank=True)


class LineProblem(models.Model):
    """A line of a source file that did not become an item, with its text, so that it can be repaired or skipped."""

    class State(models.TextChoices):
        OPEN = "open"
        SKIPPED = "skipped"
        FIXED = "fixed"

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="problems")
    file_import = models.ForeignKey(FileImport, on_delete=models.CASCADE, related_name="problems")
    line = models.BigIntegerField()
    column = models.BigIntegerField(default=1)
    code = models.CharField(max_length=32)
    message = models.CharField(max_length=500)
    fix = models.CharField(max_length=300, blank=True)
    text = models.TextField(blank=True, help_text="The line, at most 64 kB of it.")
    is_cut = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=State.choices, default=State.OPEN)
    change = models.ForeignKey(ChangeSet, null=True, blank=True, on_delete=models.SET_NULL, related_name="problems")

    class Meta:
        indexes = [models.Index(fields=["version", "state", "code", "line"])]


from datasets.label_models import Label, LabelEntry, LabelEvent, LabelTask  # noqa: E402, F401 one app's tables
