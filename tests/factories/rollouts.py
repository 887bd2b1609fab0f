"""Makes batches, rollouts and steps; `customs_group` makes a whole believable group for pages."""

import factory
from factory.django import DjangoModelFactory

from jobs.rollouts.models import Rollout, RolloutBatch, Step
from tests.factories.teams import TeamFactory


class RolloutBatchFactory(DjangoModelFactory):
    class Meta:
        model = RolloutBatch

    team = factory.SubFactory(TeamFactory)
    kind = RolloutBatch.Kind.EVALUATION
    source = factory.Sequence(lambda n: f"evalrun_{n:020d}")
    policy_label = "base"
    pass_threshold = 0.75


class RolloutFactory(DjangoModelFactory):
    class Meta:
        model = Rollout

    batch = factory.SubFactory(RolloutBatchFactory)
    team = factory.SelfAttribute("batch.team")
    group_key = "item-1"
    sample_index = factory.Sequence(lambda n: n)
    trace_id = factory.Sequence(lambda n: f"trace_{n:024d}")
    status = Rollout.Status.DONE
    stop_reason = Rollout.StopReason.ANSWERED
    reward = 1.0
    passed = factory.LazyAttribute(lambda r: None if r.reward is None else r.reward >= r.batch.pass_threshold)
    title = "What duty is due on 40 crates of pears?"
    answer = "120"


def call(name: str, arguments: str, result: str, *, is_error: bool = False, **extra) -> dict:
    return {"id": f"call_{name}", "name": name, "arguments": arguments, "result": result, "is_error": is_error,
            "milliseconds": 300.0, "notes": [], **extra}  # fmt: skip


def steps_for(rollout: Rollout, turns: list[list[dict] | str], *, tokens: int = 40) -> None:
    """Give a rollout its steps: a list of calls is a tool turn, a text is the answer. Counts follow."""
    rows = []
    for index, turn in enumerate(turns):
        calls = turn if isinstance(turn, list) else []
        rows.append(
            Step(rollout=rollout, index=index, text=turn if isinstance(turn, str) else "", tool_calls=calls,
                 input_tokens=500 + 60 * index, output_tokens=tokens, milliseconds=700.0 + 100 * index)
        )  # fmt: skip
    Step.objects.bulk_create(rows)
    made = [c for turn in turns if isinstance(turn, list) for c in turn]
    rollout.n_steps = len(rows)
    rollout.n_tool_calls = len(made)
    rollout.n_tool_errors = sum(c["is_error"] for c in made)
    rollout.tool_path = ">".join(
        "+".join(c["name"] for c in turn) if isinstance(turn, list) else "answer" for turn in turns
    )[:400]  # as long as the column; storing cuts it too
    rollout.input_tokens = sum(row.input_tokens for row in rows)
    rollout.output_tokens = sum(row.output_tokens for row in rows)
    rollout.milliseconds = sum(row.milliseconds or 0 for row in rows)
    rollout.save()


LOOK = call("lookup", '{"good": "pears"}', "pears: see fruit, fresh")
FRUIT = call("lookup", '{"good": "fruit, fresh"}', "fruit, fresh: 3 per crate")
WRONG = call("lookup", '{"good": "fruit, dried"}', "fruit, dried: 5 per crate")
MISSING = call("lookup", '{"good": "pear crates"}', "nothing found for pear crates", is_error=True)
CALC = call("calc", '{"a": 40, "b": 3}', "120")
BAD_CALC = call("calc", '{"a": 40, "b": 5}', "200")

#: One item's eight tries: reward, turns. The wrong look-up after the first step decides most of them.
TRIES: list[tuple[float | None, list]] = [
    (1.0, [[LOOK], [FRUIT], [CALC], "The duty is 120."]),
    (1.0, [[LOOK], [FRUIT], [CALC], "The duty is 120."]),
    (0.9, [[LOOK], [MISSING], [FRUIT], [CALC], "The duty is 120."]),
    (0.2, [[LOOK], [WRONG], [BAD_CALC], "The duty is 200."]),
    (0.2, [[LOOK], [WRONG], [BAD_CALC], "The duty is 200."]),
    (0.0, [[LOOK], "The duty is 40."]),
    (0.4, [[LOOK], [FRUIT], "Three per crate."]),
    (None, [[LOOK], [MISSING]]),
]


def customs_group(batch: RolloutBatch, key: str = "item-1", tries=None) -> list[Rollout]:
    """The rollouts of one item in `batch`, with steps, sub-rewards and grades."""
    made = []
    for index, (reward, turns) in enumerate(tries or TRIES):
        failed = reward is None
        rollout = RolloutFactory(
            batch=batch, team=batch.team, group_key=key, sample_index=index, reward=reward,
            stop_reason="tool_failed" if failed else "answered", status="failed" if failed else "done",
            error="The tariff server did not answer." if failed else "",
            sub_rewards={} if failed else {"duty": min(1.0, reward + 0.1), "budget": max(0.0, reward - 0.2)},
            answer=turns[-1] if isinstance(turns[-1], str) else "",
        )  # fmt: skip
        steps_for(rollout, turns)
        made.append(rollout)
    return made
