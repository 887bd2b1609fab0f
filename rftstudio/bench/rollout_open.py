"""Opening a rollout of 8, 500 and 5,000 steps in a group of eight: the whole request, as server time, and its weight.

The credit of the page's method is stored beforehand, as it is when a rollout is opened a second time; the first opening is
measured apart.
"""

import statistics
import time
from typing import Any

TRIES = 15
TARGETS = {8: 50.0, 500: 150.0, 5000: 500.0}
TARGET_KB = 300


def measures() -> list[dict[str, Any]]:
    from django.test import Client

    from rftstudio.teams.models import Membership, Role, Team, User

    team = Team.objects.create(name="Bench", slug="bench-open")
    user = User.objects.create(email="bench-open@example.com")
    Membership.objects.create(team=team, user=user, role=Role.VIEWER)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return [_open(client, team, steps) for steps in TARGETS]


def _open(client: Any, team: Any, steps: int) -> dict[str, Any]:
    from jobs.rollouts.models import Rollout, RolloutBatch
    from jobs.rollouts.services import batch_record

    batch = RolloutBatch.objects.create(team=team, kind=RolloutBatch.Kind.TRAIN_STEP, source=f"bench-open-{steps}")
    batch_record(batch=batch, records=[_record(steps, index) for index in range(8)])
    rollout = Rollout.objects.filter(batch=batch).order_by("id")[3]
    address = f"/t/{team.slug}/rollouts/{rollout.public_id}/?credit=divergence"
    first, _, _ = _request(client, address + "&compute=1")
    took, cpu, sizes = zip(*(_request(client, address) for _ in range(TRIES)), strict=True)
    return {
        "name": f"open a rollout of {steps:,} steps",
        "p50_ms": round(statistics.median(took), 1),
        "p95_ms": round(sorted(took)[int(0.95 * TRIES)], 1),
        "cpu_p50_ms": round(statistics.median(cpu), 1),
        "first_opening_ms": round(first, 1),
        "target_ms": TARGETS[steps],
        "kilobytes": round(max(sizes) / 1000),
        "target_kilobytes": TARGET_KB,
    }


def _request(client: Any, address: str) -> tuple[float, float, int]:
    started, cpu = time.perf_counter(), time.process_time()
    answer = client.get(address)
    took, cpu = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    return took, cpu, len(answer.content)


def _record(steps: int, index: int) -> Any:
    from jobs.rollouts.engine.record import RolloutRecord
    from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory

    made = [
        StepRecord(
            place,
            tool_calls=[
                ToolCallRecord(
                    f"c{place}", "lookup", f'{{"good":"tea {place} {index % (1 + place % 3)}"}}', f"{place} " * 100
                )
            ],
            finish_reason="tool_calls",
            input_tokens=300,
            output_tokens=20,
            milliseconds=900.0,
        )
        for place in range(steps - 1)
    ]
    made.append(StepRecord(steps - 1, text=f"The duty is {index}.", finish_reason="stop", output_tokens=9))
    trajectory = Trajectory(made, "answered", f"The duty is {index}.", milliseconds=7e3)
    return RolloutRecord(f"item-{steps}", index, f"trace_open{steps}x{index}", trajectory, {"reward": index / 7})
