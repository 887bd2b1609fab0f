"""The methods by key, in the order in which the page lists them."""

from dataclasses import replace

from jobs.attribution.methods import anchor_state, divergence, information_gain, prefix_value, returns_to_go, uniform
from jobs.attribution.methods.base import Method
from jobs.attribution.types import Credit, CreditRollout

METHODS: dict[str, Method] = {
    method.key: method
    for method in (
        uniform.METHOD,
        returns_to_go.METHOD,
        divergence.METHOD,
        anchor_state.METHOD,
        prefix_value.METHOD,
        information_gain.METHOD,
    )
}

#: Methods that need nothing but the stored rewards and steps of groups.
STORED_GROUP = ("uniform", "returns_to_go", "divergence", "anchor_state", "prefix_value")


def compute(method: str, rollouts: list[CreditRollout]) -> list[Credit]:
    """Credits of all rollouts that the method can credit, in their order; `rollouts` may hold many groups.

    Rollout ids need to be unique only within their group. What has no credit (ungraded, without steps, alone in its
    group) is left out.
    """
    return [credit for credit in compute_each(method, rollouts) if credit is not None]


def compute_each(method: str, rollouts: list[CreditRollout]) -> list[Credit | None]:
    """As `compute`, one entry a rollout: None where there is no credit."""
    keyed: dict[str, int] = {}
    unique = []
    for index, rollout in enumerate(rollouts):
        key = f"{rollout.group}\x1f{rollout.rollout}"
        while key in keyed:
            key += "'"
        keyed[key] = index
        unique.append(replace(rollout, rollout=key))
    found: list[Credit | None] = [None] * len(rollouts)
    for credit in METHODS[method].compute(unique):
        index = keyed[credit.rollout]
        credit.rollout = rollouts[index].rollout
        found[index] = credit
    return found
