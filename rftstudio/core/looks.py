"""How a status looks and what it means: glyph, tone, word, sentence. Job words are OpenAI's."""

from typing import NamedTuple


class Look(NamedTuple):
    glyph: str
    tone: str
    word: str
    meaning: str


LOOKS: dict[str, Look] = {
    "validating_files": Look("queued", "idle", "validating files", "Checking files and grader."),
    "queued": Look("queued", "idle", "queued", "Waiting for a free worker."),
    "running": Look("running", "run", "running", "At work now."),
    "pausing": Look("running", "idle", "pausing", "Finishes its train step, saves, then stops."),
    "paused": Look("paused", "idle", "paused", "Stopped; can go on where it was."),
    "cancelling": Look("running", "idle", "cancelling", "Stops as soon as it can."),
    "cancelled": Look("cancelled", "idle", "cancelled", "Ended by a person."),
    "succeeded": Look("done", "ok", "succeeded", "Finished as planned."),
    "done": Look("done", "ok", "done", "Finished."),
    "ok": Look("done", "ok", "ok", "As wanted."),
    "ready": Look("done", "ok", "ready", "Nothing stands in the way."),
    "passed": Look("done", "ok", "pass", "The reward reaches the pass mark."),
    "not_passed": Look("todo", "idle", "no pass", "The reward is below the pass mark."),
    "frozen": Look("done", "ok", "frozen", "Its content never changes; runs may point at it."),
    "published": Look("done", "ok", "published", "Its recipe never changes; runs may point at it."),
    "failed": Look("failed", "bad", "failed", "Ended by an error."),
    "blocked": Look("failed", "bad", "blocked", "Something must be fixed first."),
    "block": Look("failed", "bad", "blocks", "Something must be fixed first."),
    "bad": Look("failed", "bad", "not ready", "Something must be fixed first."),
    "warning": Look("warning", "warn", "warning", "Look at this before going on."),
    "warn": Look("warning", "warn", "warning", "Look at this before going on."),
    "draft": Look("draft", "idle", "draft", "Still being edited."),
    "importing": Look("running", "run", "importing", "Lines are being read."),
    "partly": Look("half", "run", "partly done", "Some of it is done."),
    "held": Look("half", "run", "held", "Set aside until the bill is known."),
    "ungraded": Look("ungraded", "idle", "ungraded", "The grader gave no reward; that is not 0."),
    "todo": Look("todo", "idle", "not started", "Nothing has happened here yet."),
    "info": Look("info", "run", "note", "Good to know."),
}


def look_of(status: str) -> Look:
    """The look of a known status; an unknown one is shown in its own words, without a claim."""
    return LOOKS.get(status) or Look("todo", "idle", status.replace("_", " "), "")
