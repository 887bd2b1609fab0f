"""Cursor pages neither skip nor repeat, whatever is written while somebody walks them."""

import pytest

from datasets.models import Dataset
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory

pytestmark = pytest.mark.django_db


def make(team, count: int, start: int = 0) -> list[str]:
    rows = [Dataset(team=team, name=f"D{n}", slug=f"d{n}") for n in range(start, start + count)]
    return [row.public_id for row in Dataset.objects.bulk_create(rows)]


def walk(rest, path: str, way: str = "next_cursor", *, meanwhile=lambda page: None, cursor: str | None = None):
    """Ids of all pages in the order in which they are met, and the last page's answer."""
    found, answer = [], None
    while answer is None or cursor:
        answer = rest.get(f"{path}&cursor={cursor}" if cursor else path).json()
        found.append([row["id"] for row in answer["data"]])
        cursor = answer[way]
        meanwhile(len(found))
    return found, answer


def test_120_rows_of_one_moment_are_met_once_forward_and_back(rest, team):
    batch = RolloutBatchFactory(team=team)
    made = [RolloutFactory(batch=batch, sample_index=n) for n in range(120)]
    type(made[0]).objects.update(created_at=made[0].created_at)
    forward, last = walk(rest, "/api/rollouts?limit=50")
    assert [len(page) for page in forward] == [50, 50, 20]
    ids = [one for page in forward for one in page]
    assert ids == [row.public_id for row in reversed(made)]
    back, _ = walk(rest, "/api/rollouts?limit=50", "previous_cursor", cursor=last["previous_cursor"])
    assert [one for page in reversed(back) for one in page] == ids[:100]


def test_rows_added_and_removed_meanwhile_neither_shift_nor_repeat(rest, team):
    made = make(team, 25)

    def write(page: int) -> None:
        make(team, 7, start=100 * page)
        Dataset.objects.filter(public_id=made[24 - 10 * (page - 1)]).delete()  # the first row of a page that was seen

    pages, _ = walk(rest, "/api/datasets?limit=10", meanwhile=write)
    ids = [one for page in pages for one in page]
    assert ids == list(reversed(made))


def test_the_row_that_a_cursor_names_may_go(rest, team):
    made = make(team, 6)
    first = rest.get("/api/datasets?limit=3").json()
    Dataset.objects.filter(public_id=made[3]).delete()  # the last row of that page
    second = rest.get(f"/api/datasets?limit=3&cursor={first['next_cursor']}").json()
    assert [row["id"] for row in second["data"]] == made[2::-1]


def test_ascending_pages_meet_what_comes_in_at_the_end(rest, team):
    made = make(team, 4)
    first = rest.get("/api/datasets?limit=3&order=asc").json()
    late = make(team, 2, start=50)
    second = rest.get(f"/api/datasets?limit=9&cursor={first['next_cursor']}").json()
    assert [row["id"] for row in first["data"] + second["data"]] == made + late
    assert second["next_cursor"] is None


def test_links_lead_to_the_neighbours(rest, team):
    make(team, 5)
    answer = rest.get("/api/datasets?limit=2")
    assert 'rel="next"' in answer["Link"]
    assert "limit=2" in answer["Link"]
    assert 'rel="prev"' not in answer["Link"]


@pytest.mark.parametrize("cursor", ["x", "bmQx!", "%00", "bmRub3RhbnVtYmVy", "eGQx", "bmQtNQ"])
def test_a_cursor_of_somebody_elses_making_is_refused(rest, cursor):
    answer = rest.get(f"/api/datasets?cursor={cursor}")
    assert answer.status_code == 400
    assert answer.json()["where"] == "cursor"


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "order=up", "sort=name", "page=2"])
def test_other_bad_parameters_are_refused_by_name(rest, query):
    answer = rest.get(f"/api/datasets?{query}")
    assert answer.status_code == 400
    assert answer.json()["where"] == query.split("=")[0]


@pytest.mark.parametrize("path", ["/api/datasets", "/api/rollouts", "/api/jobs", "/api/evaluations", "/api/agents"])
def test_twenty_rows_ask_as_many_queries_as_ten(rest, member, path, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from jobs.models import Job
    from tests.factories.studio import ready_baseline_of

    baselines = [ready_baseline_of(member, n_test=2) for _ in range(2)]
    for n in range(10):
        Job.objects.create(team=member.team, number=n + 1, baseline=baselines[n % 2], base_model=baselines[0].model)
    counts = []
    for limit in (1, 10):
        with CaptureQueriesContext(
            connection,
        ) as caught:
            assert rest.get(f"{path}?limit={limit}").status_code == 200
        counts.append(len(caught))
    assert counts[0] == counts[1]
