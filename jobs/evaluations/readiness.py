"""Is there something to learn, and may a job start? A verdict made of lines with evidence and remedy. Portable.

Facts come in as plain values; the addresses that remedies point at come in by name. `selectors.readiness_facts` gathers
both. A blocking line can be overruled by a right-holder with a reason, at launch.
"""

from collections.abc import Callable, Iterable
from typing import Any

from jobs.evaluations.facts import BLOCK, OK, WARN, Facts, Line, percent
from jobs.evaluations.readiness_budget import budget_line

_ORDER = {BLOCK: 0, WARN: 1, OK: 2}

WANT_FOOTHOLD = 0.20
WANT_SIGNAL = 0.40
LEAST_SIGNAL = 0.05
FAIL_LOW, FAIL_HIGH = 0.25, 0.75
WANT_TRAIN_ITEMS, LEAST_TRAIN_ITEMS = 100, 8
WANT_VALIDATION_ITEMS = 20
WANT_UNGRADED, MOST_UNGRADED = 0.01, 0.20
WANT_TOOL_SECONDS, WANT_TOOL_ERRORS = 5.0, 0.02
WANT_AGREEMENT = 0.80
MOST_LEAK = 0.01


def finished_line(facts: Facts) -> Line:
    done, name = facts.metrics.get("rollouts", 0), "Evaluation finished"
    if facts.is_cancelled:
        said = "It was cancelled, so part of the items was never tried."
        return Line("finished", BLOCK, name, "cancelled", "all", said, facts.remedy("Run it again", "again"))
    if facts.is_finished and facts.metrics.get("graded"):
        return Line("finished", OK, name, f"{done:,} rollouts", "all", "Every rollout ended and was looked at.")
    if facts.is_finished:
        return Line(
            "finished",
            BLOCK,
            name,
            "0 graded",
            "all",
            "No rollout was graded, so nothing is known about the policy.",
            facts.remedy("See why they failed", "failed"),
        )
    return Line(
        "finished",
        BLOCK,
        name,
        f"{done:,} so far",
        "all",
        "It is too early to say: rollouts are still running.",
        facts.remedy("Wait for it to finish"),
    )


def fields_line(facts: Facts) -> Line:
    """The grader reads only what the rows have: a missing field makes every grade an error."""
    name = "Grader reads fields that rows have"
    if facts.grader_problems:
        return Line(
            "grader_fields",
            BLOCK,
            name,
            f"{len(facts.grader_problems)} faults",
            "0",
            " ".join(facts.grader_problems),
            facts.remedy("Open the grader", "grader"),
        )
    if not facts.missing_fields:
        return Line(
            "grader_fields",
            OK,
            name,
            "0 missing",
            "0",
            f"Every field it names is in the {facts.checked_rows:,} rows.",
        )
    parts = [f"{count} of {facts.checked_rows} rows lack {path}" for path, count in facts.missing_fields.items()]
    worst = max(facts.missing_fields.values())
    have = f" The rows have: {', '.join(facts.row_fields[:20])}." if facts.row_fields else ""
    return Line(
        "grader_fields",
        BLOCK if worst * 10 > facts.checked_rows else WARN,
        name,
        f"{worst:,} rows lack a field",
        "0",
        "; ".join(parts) + ". Those rows cannot be graded." + have,
        facts.remedy("Change the grader's field, or add it to the rows", "grader"),
    )


def trainable_line(facts: Facts) -> Line:
    name = "Model can be trained here"
    if facts.is_trainable:
        return Line("trainable", OK, name, "yes", "yes", f"{facts.model_name} has weights that a job can start from.")
    return Line(
        "trainable",
        BLOCK,
        name,
        "no",
        "yes",
        f"{facts.model_name} only answers; its weights are not here, so a self-hosted job cannot change them.",
        facts.remedy("Add a model with weights", "models"),
    )


def foothold_line(facts: Facts) -> Line:
    share, items = facts.number("pass_at_k"), facts.metrics.get("items_graded", 0)
    k, name = facts.metrics.get("samples_per_item", 0), "A foothold"
    passing = facts.metrics.get("groups_some_pass", 0)
    evidence = f"The policy passes at least once in {k} tries on {passing} of {items} items."
    wanted = percent(WANT_FOOTHOLD)
    if share is None:
        return Line(
            "foothold",
            WARN,
            name,
            "–",
            wanted,
            "No item has all its rollouts graded.",
            facts.remedy("See why they failed", "failed"),
        )
    if share >= WANT_FOOTHOLD:
        return Line("foothold", OK, name, percent(share), wanted, evidence)
    if share == 0 and not facts.metrics.get("learnable_items"):
        return Line(
            "foothold",
            BLOCK,
            name,
            percent(share),
            wanted,
            evidence + " Practice cannot strengthen what never happens: show it good examples first (a supervised warm "
            "start), or make the prompt, the tools or the items easier.",
            facts.remedy("Show it good examples first", "examples"),
        )
    return Line(
        "foothold",
        WARN,
        name,
        percent(share),
        wanted,
        evidence + " Learning will start slowly; a supervised warm start from good examples, a better prompt or easier "
        "items help.",
        facts.remedy("Show it good examples first", "examples"),
    )


def headroom_line(facts: Facts) -> Line:
    rate, name, wanted = facts.number("pass_rate"), "Room to learn", "25 to 75 % fail"
    if rate is None:
        return Line("headroom", WARN, name, "–", wanted, "No rollout was graded.")
    fail = 1 - rate
    measured = f"{percent(fail)} fail"
    if FAIL_LOW <= fail <= FAIL_HIGH:
        return Line("headroom", OK, name, measured, wanted, "Too easy or too hard would both leave nothing to gain.")
    if fail < FAIL_LOW:
        blocked = fail <= 0.01 and not facts.metrics.get("learnable_items")
        evidence = "The policy passes nearly always, so a job can gain little."
        if blocked:
            evidence = "The policy passes always, in the same way: there is nothing to gain."
        return Line(
            "headroom",
            BLOCK if blocked else WARN,
            name,
            measured,
            wanted,
            evidence,
            facts.remedy("Use harder items, or a stricter grader", "dataset"),
        )
    return Line(
        "headroom",
        WARN,
        name,
        measured,
        wanted,
        "Most rollouts fail, so most groups hold no success to learn from.",
        facts.remedy("Work on the prompt and tools first", "agent"),
    )


def signal_line(facts: Facts) -> Line:
    share, count = facts.number("learnable_share"), facts.metrics.get("learnable_items", 0)
    groups, name, wanted = facts.metrics.get("groups", 0), "Signal inside groups", percent(WANT_SIGNAL)
    if share is None:
        return Line(
            "signal",
            BLOCK,
            name,
            "–",
            wanted,
            "No item has two graded rollouts, so nothing can be compared within an item.",
            facts.remedy("Run it again with 4 rollouts an item", "again"),
        )
    spread = facts.metrics.get("learnable_spread", 0.1)
    evidence = f"{count} of {groups} items have rewards that spread by {spread:.2f} or more."
    if share >= WANT_SIGNAL:
        return Line("signal", OK, name, percent(share), wanted, evidence)
    level = BLOCK if share < LEAST_SIGNAL else WARN
    return Line(
        "signal",
        level,
        name,
        percent(share),
        wanted,
        evidence + " Items whose rollouts all score the same teach nothing.",
        facts.remedy("See the items without spread", "rollouts"),
    )


def method_line(facts: Facts) -> Line | None:
    """One turn, no tool, and the rows hold the answers: what practice would find out slowly can simply be shown."""
    metrics = facts.metrics
    is_plain = metrics.get("graded") and not metrics.get("tool_calls") and metrics.get("steps_max") == 1
    if not is_plain or not facts.checked_rows or facts.missing_fields:
        return None
    return Line(
        "method", WARN, "Practice is the right method", "1 turn, no tools", "tools or several turns",
        "Every rollout answers in one turn without a tool, and the rows hold what the grader compares with. If that is a "
        "good answer, learning from it by supervised fine-tuning alone is the quicker method, measured the same way.",
        facts.remedy("Learn from the answers instead", "examples"),
    )  # fmt: skip


def graded_line(facts: Facts) -> Line:
    distinct, name = facts.metrics.get("distinct_rewards", 0), "Reward has degrees"
    if distinct > 2:
        return Line("graded", OK, name, f"{distinct} values", "3 or more", "Half-right answers score between.")
    return Line(
        "graded",
        WARN,
        name,
        f"{distinct} values",
        "3 or more",
        "The reward only says right or wrong. Credit for half-right answers gives more items a signal.",
        facts.remedy("Add partial credit to the grader", "grader"),
    )


def failures_line(facts: Facts) -> Line:
    share, count = facts.number("ungraded_share") or 0.0, facts.metrics.get("ungraded", 0)
    rollouts, name = facts.metrics.get("rollouts", 0), "Failures outside the model"
    if share <= WANT_UNGRADED:
        return Line(
            "failures",
            OK,
            name,
            percent(share),
            percent(WANT_UNGRADED),
            f"{count} of {rollouts} rollouts ungraded.",
        )
    causes = facts.metrics.get("failures", [])
    first = f" Most often: {causes[0]['cause'].replace('_', ' ')} ({causes[0]['rollouts']})." if causes else ""
    level = BLOCK if share > MOST_UNGRADED else WARN
    return Line(
        "failures",
        level,
        name,
        percent(share),
        percent(WANT_UNGRADED),
        f"{count} of {rollouts} rollouts have no reward.{first}",
        facts.remedy("Read the failed rollouts", "failed"),
    )


def items_line(facts: Facts) -> Line:
    train, validation = facts.train_items, facts.validation_items
    evidence = f"{train:,} train and {validation:,} validation items."
    measured, wanted, name = f"{train:,}", str(WANT_TRAIN_ITEMS), "Enough items"
    if train >= WANT_TRAIN_ITEMS and validation >= WANT_VALIDATION_ITEMS:
        return Line("items", OK, name, measured, wanted, evidence)
    if train < LEAST_TRAIN_ITEMS:
        evidence += f" A job needs at least {LEAST_TRAIN_ITEMS} train items."
        return Line("items", BLOCK, name, measured, wanted, evidence, facts.remedy("Add items or split", "dataset"))
    if not validation:
        evidence += " Without validation items nobody sees whether it memorises."
    return Line("items", WARN, name, measured, wanted, evidence, facts.remedy("Add items or split", "dataset"))


def leak_line(facts: Facts) -> Line:
    name = "No leak between splits"
    if not facts.leaked_items:
        return Line("leak", OK, name, "0 repeated", "0", "No item stands in two splits.")
    total = facts.train_items + facts.validation_items
    level = BLOCK if facts.leaked_items > MOST_LEAK * max(total, 1) else WARN
    return Line(
        "leak",
        level,
        name,
        f"{facts.leaked_items} repeated",
        "0",
        "The same content stands in the train split and in another, so scores there would flatter.",
        facts.remedy("Split again, repeats together", "dataset"),
    )


def tools_line(facts: Facts) -> Line | None:
    if not facts.metrics.get("tool_calls"):
        return None
    seconds = (facts.number("tool_p95_milliseconds") or 0.0) / 1000
    errors, calls = facts.number("tool_error_share") or 0.0, facts.metrics["tool_calls"]
    measured, wanted, name = f"{seconds:.1f} s, {percent(errors)} errors", "5 s, 2 %", "Tools keep up"
    evidence = f"95 % of {calls:,} calls answer in {seconds:.2f} s; {percent(errors)} answer with an error."
    if seconds <= WANT_TOOL_SECONDS and errors <= WANT_TOOL_ERRORS:
        return Line("tools", OK, name, measured, wanted, evidence)
    return Line("tools", WARN, name, measured, wanted, evidence, facts.remedy("Open the tools", "tools"))


def iterated_line(facts: Facts) -> Line:
    name, measured = (
        "Prompt and tools tried first",
        f"{facts.versions_measured} version" + ("s" if facts.versions_measured != 1 else ""),
    )
    if facts.versions_measured >= 2:
        return Line(
            "iterated",
            OK,
            name,
            measured,
            "2 or more",
            "Several versions of this agent were measured on this dataset.",
        )
    return Line(
        "iterated",
        WARN,
        name,
        measured,
        "2 or more",
        f"{'Only one' if facts.versions_measured else 'No'} version of this agent was measured. A better prompt or tool is cheaper than training.",
        facts.remedy("Publish another version and measure it", "agent"),
    )


def agreement_line(facts: Facts) -> Line | None:
    """None where nobody labelled: a missing label is advice on the dataset page, not a warning on each launch."""
    if facts.label_agreement is None:
        return None
    level = OK if facts.label_agreement >= WANT_AGREEMENT else WARN
    return Line(
        "agreement",
        level,
        "Grader agrees with experts",
        f"{facts.label_agreement:.2f}",
        f"{WANT_AGREEMENT:.2f}",
        f"On {facts.labelled_rollouts} rollouts that experts labelled.",
        None if level == OK else facts.remedy("Read the disagreements", "grader"),
    )


def gaming_line(facts: Facts) -> Line | None:
    if facts.tricks_tried is None:
        return None
    passed, name = len(facts.tricks_passed), "Hard to game"
    measured = f"{passed} of {facts.tricks_tried} tricks pass"
    if not passed:
        return Line(
            "gaming",
            OK,
            name,
            measured,
            "0",
            "Empty answers, echoed questions and other cheap tricks stay below the pass mark.",
        )
    return Line(
        "gaming",
        WARN,
        name,
        measured,
        "0",
        "These answers pass without knowing anything: " + ", ".join(facts.tricks_passed) + ".",
        facts.remedy("Tighten the grader", "grader"),
    )


def independent_line(facts: Facts) -> Line:
    name = "An independent evaluation"
    if facts.other_graders:
        return Line(
            "independent",
            OK,
            name,
            str(facts.other_graders),
            "1",
            "This agent was also measured by another grader.",
        )
    return Line(
        "independent",
        WARN,
        name,
        "0",
        "1",
        "Only the grader that will reward the training has measured this agent; a second one shows when it is gamed.",
        facts.remedy("Evaluate with another grader", "again"),
    )


CHECKS: tuple[Callable[[Facts], Line | None], ...] = (
    fields_line,  # first: a grader that reads what is not there makes all the rest fail
    finished_line,
    trainable_line,
    foothold_line,
    signal_line,
    headroom_line,
    method_line,
    failures_line,
    items_line,
    leak_line,
    graded_line,
    tools_line,
    budget_line,
    agreement_line,
    gaming_line,
    iterated_line,
    independent_line,
)


def readiness_lines(facts: Facts) -> list[Line]:
    """Every check that applies, blocks first, then warnings."""
    lines = [line for check in CHECKS if (line := check(facts))]
    return sorted(lines, key=lambda line: _ORDER[line.level])


def verdict(lines: Iterable[Line]) -> dict[str, Any]:
    """`level` ok, warn or block; the sentence over the lines; the lines as plain data."""
    lines = list(lines)
    blocks = sum(line.level == BLOCK for line in lines)
    warnings = sum(line.level == WARN for line in lines)
    noun = "warning" if warnings == 1 else "warnings"
    if blocks:
        level, title = BLOCK, f"Not ready: {blocks} {'check blocks' if blocks == 1 else 'checks block'} a launch"
        text = "Mend what blocks. A team owner may overrule it with a reason, which is kept in the audit log."
    elif warnings:
        level, title = WARN, f"Ready, with {warnings} {noun}"
        text = "You may launch. The warnings will be noted on the job."
    else:
        level, title, text = OK, "Ready", "There is something to learn, and nothing stands in the way."
    return {
        "level": level,
        "title": title,
        "text": text,
        "blocks": blocks,
        "warnings": warnings,
        "lines": [line.as_dict() for line in lines],
    }
