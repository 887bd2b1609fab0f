"""The rollout list at a thousand and at a million rollouts of 8 steps: whole requests through the view, as server time.

The rows are made by the database from counting, so making them takes a minute; what is measured afterwards is the
product's own pages. Every tenth source is a job with train steps, one rollout in 200 failed, one in 1,000 used a rare
tool and one in 5,000 speaks of persimmons. STUDIO_BENCH_ROLLOUTS makes it smaller.
"""

# ruff: noqa: S608 - SQL is put together from constants; what people type is a parameter.

import os
import statistics
import time
from typing import Any

SMALL = 1_000
LARGE = int(os.environ.get("STUDIO_BENCH_ROLLOUTS", "1000000"))
PER_BATCH = 400
TRIES = 25
TARGET_MS, TARGET_RATIO, TARGET_SEARCH_MS, TARGET_CURVE_MS = 80.0, 1.5, 100.0, 50.0

KINDS = {
    "first page by item": "",
    "first page one by one": "by=rollout",
    "deep page by item": "after={deep}",
    "deep page one by one": "by=rollout&after={deep}",
    "reward 0.9 to 1": "by=rollout&reward=0.9-1",
    "one train step": "by=rollout&source={source}&train_step=3",
    "ungraded": "by=rollout&graded=0",
    "failed in the model": "by=rollout&stop=model_failed",
    "common tool": "by=rollout&tool=lookup",
    "rare tool": "by=rollout&tool=appraise",
    "common tool by item": "tool=lookup",
    "with an error": "by=rollout&error=1",
    "search, rare word": "by=rollout&q=persimmons",
    "search, common word": "by=rollout&q=duty",
    "search, two words": "by=rollout&q=pears+{number}",
}


def measures() -> list[dict[str, Any]]:
    from django.test import Client

    from rftstudio.teams.models import Membership, Role, Team, User

    team = Team.objects.create(name="Bench", slug="bench-list")
    user = User.objects.create(email="bench-list@example.com")
    Membership.objects.create(team=team, user=user, role=Role.VIEWER)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    found: dict[str, dict[int, list[tuple[float, float]]]] = {kind: {} for kind in KINDS}
    lines = []
    for size in (SMALL, LARGE):
        started = time.perf_counter()
        grow(team, size)
        lines.append({"name": f"made to {size:,} rollouts", "seconds": round(time.perf_counter() - started, 1)})
        for kind, query in KINDS.items():
            found[kind][size] = [_request(client, team, query.format(**_values(team, size, n))) for n in range(TRIES)]
    lines += [_line(kind, by_size) for kind, by_size in found.items()]
    return [*lines, _curve(team)]


def _line(kind: str, by_size: dict[int, list[tuple[float, float]]]) -> dict[str, Any]:
    (small, _), (large, busy) = (
        tuple(map(statistics.median, zip(*by_size[size], strict=True))) for size in (SMALL, LARGE)
    )
    return {
        "name": f"rollout list, {kind}, {LARGE:,} rollouts",
        "p50_ms": round(large, 1),
        "p95_ms": round(sorted(took for took, _ in by_size[LARGE])[int(0.95 * TRIES)], 1),
        "cpu_p50_ms": round(busy, 1),
        "ratio_to_1k": round(large / small, 2),
        "target_ms": TARGET_SEARCH_MS if kind.startswith("search") else TARGET_MS,
        "target_ratio": TARGET_RATIO,
    }


def _request(client: Any, team: Any, query: str) -> tuple[float, float]:
    """Wall and processor milliseconds: on a machine that does other things the second tells more."""
    started, cpu = time.perf_counter(), time.process_time()
    answer = client.get(f"/t/{team.slug}/rollouts/?{query}")
    took, cpu = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
    if answer.status_code != 200:
        raise RuntimeError(f"?{query} answered {answer.status_code}")
    return took, cpu


def _values(team: Any, size: int, number: int) -> dict[str, Any]:
    from jobs.rollouts.models import Rollout

    top = Rollout.objects.order_by("-id").values_list("id", flat=True)[0]
    return {"deep": top - size // 2 - number, "source": "bench-0", "number": 7 * number % size}


def grow(team: Any, size: int) -> None:
    """Rollouts with steps until the team has `size`."""
    from django.db import connection, transaction

    from jobs.rollouts.models import RolloutBatch

    made = RolloutBatch.objects.filter(team=team).count() * PER_BATCH
    rows = [
        RolloutBatch(team=team, kind="train_step", source=f"bench-{n // 250}", train_step=n % 250, policy_label="bench")
        for n in range(made // PER_BATCH, -(-size // PER_BATCH))
    ]
    first = RolloutBatch.objects.bulk_create(rows, batch_size=500)[0].pk if rows else 0
    for start in range(made, size, 100_000):
        with transaction.atomic(), connection.cursor() as cursor:
            end = min(size, start + 100_000)
            cursor.execute(_rollouts_sql(connection), _parameters(team.pk, first - made // PER_BATCH, start, end))
            cursor.execute(_steps_sql(connection), [f"trace_bench{start}x", f"trace_bench{start}x"])
    if (
        connection.vendor == "postgresql"
    ):  # does so by itself, in a while; SQLite has no statistics in the product either
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def _parameters(team_id: int, first_batch: int, start: int, end: int) -> dict[str, int]:
    return {"team": team_id, "first": first_batch, "start": start, "end": end, "per": PER_BATCH}


def _series(connection: Any) -> str:
    if connection.vendor == "postgresql":
        return "SELECT generate_series(%(start)s, %(end)s - 1) AS n"
    return (
        "WITH RECURSIVE counting(n) AS (SELECT %(start)s UNION ALL SELECT n + 1 FROM counting WHERE n + 1 < %(end)s) "
        "SELECT n FROM counting"
    )


def _rollouts_sql(connection: Any) -> str:
    is_postgres = connection.vendor == "postgresql"
    now = "now()" if is_postgres else "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"
    yes, no, empty = ("true", "false", "'[]'::jsonb") if is_postgres else ("1", "0", "'[]'")
    braces = "'{{}}'::jsonb" if is_postgres else "'{{}}'"
    braces = braces.replace("{{", "{").replace("}}", "}")
    parts = '\'{"answer":0.5,"budget":1.0}\'' + ("::jsonb" if is_postgres else "")
    failed = "n %% 200 = 7"
    reward = "(CAST(n AS bigint) * 7919 %% 1000) / 1000.0"  # on PostgreSQL a million times that is no integer
    words = "'What duty is due on ' || (n %% 97) || ' crates of pears and ' || (n %% 89) || ' of figs?'"
    answer = (
        "'The duty is ' || n || ' in all, by heading ' || (n %% 8000) || ' and note ' || (n %% 61) || "
        "CASE WHEN n %% 5000 = 11 THEN '; persimmons are free' ELSE '' END"
    )
    return (
        "INSERT INTO rollouts_rollout (public_id, team_id, batch_id, group_key, sample_index, trace_id, status, attempt, "
        "stop_reason, error, reward, passed, sub_rewards, grade, answer, title, n_steps, n_tool_calls, n_tool_errors, "
        "tool_path, input_tokens, output_tokens, milliseconds, flags, extra, body_digest, created_at) "
        f"SELECT 'roll-bench' || n, %(team)s, %(first)s + n / %(per)s, 'item-' || (n / 8), n %% 8, 'trace_bench' || n, "
        f"CASE WHEN {failed} THEN 'failed' ELSE 'done' END, 1, "
        f"CASE WHEN {failed} THEN 'model_failed' ELSE 'answered' END, "
        f"CASE WHEN {failed} THEN 'The model did not answer.' ELSE '' END, "
        f"CASE WHEN {failed} THEN NULL ELSE {reward} END, "
        f"CASE WHEN {failed} THEN NULL WHEN {reward} >= 0.5 THEN {yes} ELSE {no} END, {parts}, {braces}, {answer}, {words}, "
        "8, 7, CASE WHEN n %% 50 = 3 THEN 1 ELSE 0 END, "
        "CASE WHEN n %% 1000 = 5 THEN 'lookup>appraise>lookup>calc>lookup>lookup>calc>answer' "
        "ELSE 'lookup>lookup>lookup>calc>lookup>lookup>calc>answer' END, "
        f"2400, 180, 5600.0, {empty}, {braces}, '', {now} FROM ({_series(connection)}) AS counted"
    )


def _steps_sql(connection: Any) -> str:
    """Eight short steps for each rollout of the last hundred thousand."""
    is_postgres = connection.vendor == "postgresql"
    calls = '\'[{"id":"c","name":"lookup","arguments":"{}","result":"pears: fruit, fresh","is_error":false}]\''
    if is_postgres:
        calls += "::jsonb"
    steps = (
        "SELECT generate_series(0, 7) AS i"
        if is_postgres
        else "SELECT 0 AS i UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL "
        "SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7"
    )
    return (
        'INSERT INTO rollouts_step (rollout_id, "index", text, reasoning, tool_calls, finish_reason, input_tokens, '
        f"output_tokens) SELECT r.id, i, '', '', {calls}, 'tool_calls', 300, 20 FROM rollouts_rollout r, ({steps}) AS s "
        "WHERE r.id > COALESCE((SELECT max(rollout_id) FROM rollouts_step), 0) AND %s = %s"
    )


def _curve(team: Any) -> dict[str, Any]:
    """The reward curve of a job whose rollouts all these would be: sums kept with each train step, no rollout is read."""
    from django.db import transaction

    from jobs.charts import reward_chart
    from jobs.models import Job, TrainStep
    from jobs.selectors import step_figures

    steps, took = LARGE // PER_BATCH, []
    with transaction.atomic():
        # What a job points at is not read, and all is taken back before the database looks for it.
        job = Job.objects.create(team=team, number=1, baseline_id=1, base_model_id=1)
        metrics = {"studio": {"groups": 50, "tokens_mean": 180.0}}
        TrainStep.objects.bulk_create(
            TrainStep(job=job, number=n + 1, mean_reward=n % 97 / 97, metrics=metrics) for n in range(steps)
        )
        for _ in range(TRIES):
            started = time.perf_counter()
            reward_chart(step_figures(job), total=steps, baseline=0.4)
            took.append((time.perf_counter() - started) * 1000)
        transaction.set_rollback(True)
    return {
        "name": f"reward curve over {LARGE:,} rollouts in {steps:,} train steps",
        "p50_ms": round(statistics.median(took), 1),
        "p95_ms": round(sorted(took)[int(0.95 * TRIES)], 1),
        "target_ms": TARGET_CURVE_MS,
    }
