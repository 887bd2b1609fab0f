"""Where a grader's tests take their samples: typed answers, a dataset's own fields, stored rollouts.

Rollouts stand to the right of graders, so settings name the function that finds stored ones.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from datasets.models import DatasetVersion, Item
from datasets.selectors import item_list
from graders.recipe_files import fields_of
from graders.samples import sample_from
from graders.starting import starting_points
from graders.types import Sample
from rftstudio.teams.models import Team

FIELD_ROWS = 500


@dataclass(frozen=True)
class StoredSample:
    """A rollout's answer with the item it was for. `reward` is what it got then; `label` what a person gave."""

    id: str
    item_key: str
    item: dict[str, Any]
    sample: Sample
    reward: float | None = None
    grader_version: str = ""
    label: float | None = None
    url: str = ""
    wanted: float | None = None  # of an example: the reward that its starting point gives it

    @property
    def is_example(self) -> bool:
        return self.wanted is not None


@dataclass(frozen=True)
class Choice:
    """The dataset version that tests of this grader use."""

    version: DatasetVersion | None
    fields: dict[str, dict[str, int]] = field(default_factory=dict)
    is_examples: bool = False  # the rows of the starting point, in place of a dataset


def stored_samples(
    *,
    team: Team,
    version: DatasetVersion | None = None,
    limit: int = 20,
    rollout: str = "",
    rollouts: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
) -> list[StoredSample]:
    """The newest finished rollouts of the team, of one dataset version, or one by its id.

    With `rollouts` (ids) or `items` (keys) only those, and of any version of that dataset.
    """
    source = import_string(settings.STUDIO_SAMPLE_SOURCE)
    return source(team=team, version=version, limit=limit, rollout=rollout, rollouts=rollouts, items=items)


def example_samples(started_from: str) -> list[StoredSample]:
    """The rows that came with a grader's starting point, so that it can be tried before there is any dataset."""
    point = starting_points().get(started_from)
    return [
        StoredSample(
            f"example-{number}", f"example {number}", row["item"], sample_from(row["sample"]), wanted=row["reward"]
        )
        for number, row in enumerate(point.rows if point else [], 1)
    ]


def version_choices(*, team: Team, limit: int = 30) -> list[DatasetVersion]:
    rows = DatasetVersion.objects.filter(team=team, item_count__gt=0).select_related("dataset")
    return list(rows.order_by("-pk")[:limit])


#: What the choice of a dataset says when it is none: the rows of the starting point.
EXAMPLES = "examples"


def examples_chosen(started_from: str) -> Choice:
    """The starting point's own rows as what a recipe is checked against."""
    return Choice(None, fields_of(sample.item for sample in example_samples(started_from)), is_examples=True)


#: So many versions are looked at for one that fits a grader.
VERSIONS_TRIED = 8


def version_chosen(*, team: Team, public_id: str = "", wanted: Collection[str] = ()) -> Choice:
    """The asked version; else the newest that has the wanted fields, so that a dataset added for another task does not
    make a sound grader look broken; else the newest with items."""
    rows = DatasetVersion.objects.filter(team=team).select_related("dataset")
    if public_id and (version := rows.filter(public_id=public_id).first()):
        return Choice(version, version_fields(version))
    newest = None
    for version in rows.filter(item_count__gt=0).order_by("-pk")[: VERSIONS_TRIED if wanted else 1]:
        choice = Choice(version, version_fields(version))
        if all(name in choice.fields for name in wanted):
            return choice
        newest = newest or choice
    return newest or Choice(None)


def version_fields(version: DatasetVersion) -> dict[str, dict[str, int]]:
    """Field names with coverage, from the version's first rows."""
    rows = Item.objects.filter(version=version).order_by("position")[:FIELD_ROWS]
    return fields_of(item.data for item in rows)


def item_at(*, team: Team, version: DatasetVersion | None, position: int) -> Item | None:
    """The item at a place, counted round: after the last comes the first."""
    if version is None:
        return None
    rows = item_list(team=team, version=version)
    count = version.item_count or rows.count()
    return rows[position % count : position % count + 1].first() if count else None


def field_samples(*, team: Team, version: DatasetVersion, source: str, limit: int) -> Iterator[StoredSample]:
    """Each item answered by one of its own fields, or with nothing (`source` empty)."""
    for item in item_list(team=team, version=version)[:limit]:
        data = item.data
        value = data.get(source, "") if source else ""
        yield StoredSample(item.key, item.key, data, sample_from(_as_answer(value)))


def _as_answer(value: Any) -> str:
    from graders.templating import as_text

    return "" if value is None else as_text(value)
