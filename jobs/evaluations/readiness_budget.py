"""Readiness, the line about money. Portable."""

from jobs.evaluations.facts import BLOCK, OK, WARN, Facts, Line

ROLLOUTS_AN_ITEM = 8  # of a train step, as the launch form proposes


def budget_line(facts: Facts) -> Line:
    """What one pass over the train items may cost by this evaluation's rollouts, against what is left of the month."""
    name, left = "Budget", facts.budget_left_usd
    cost, priced = facts.number("cost_usd"), facts.metrics.get("cost_rollouts") or 0
    a_pass = cost / priced * facts.train_items * ROLLOUTS_AN_ITEM if cost is not None and priced else None
    wanted = "one pass" if a_pass is None else f"{show_usd(a_pass)} a pass"
    evidence = (
        "These rollouts have no price, so only training time will cost."
        if a_pass is None
        else f"{facts.train_items:,} train items × {ROLLOUTS_AN_ITEM} rollouts at {show_usd(cost / priced, 4)} each; "
        "training time comes on top."
    )
    if left is None:
        return Line("budget", OK, name, "no limit", wanted, f"The team has no quota for the month. {evidence}")
    measured = f"{show_usd(max(left, 0.0))} left"
    ask = facts.remedy("Ask an owner to raise the quota", "costs")
    if left <= 0:
        return Line("budget", BLOCK, name, measured, wanted, f"Nothing is left of this month's quota. {evidence}", ask)
    if a_pass is not None and a_pass > left:
        return Line("budget", WARN, name, measured, wanted, f"It will stop before one pass is done: {evidence}", ask)
    return Line("budget", OK, name, measured, wanted, evidence)


def show_usd(amount: float, places: int = 2) -> str:
    return f"${amount:,.{places}f}"
