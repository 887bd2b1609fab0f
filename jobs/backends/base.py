"""What every trainer backend can do, in plain values. No tables here, and no backend knows about them.

`poll` answers the events after a cursor, in order, in chunks that each carry the cursor behind them; asking twice with
the same cursor answers the same. Events have the shape of the self-hosted trainer's journal: `started`, `rollout`,
`step`, `checkpoint`, `log`, `finished`. A backend that gives no rollouts (a hosted one, whose tools and grader call our
gateway) sends the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: A provider that asks for a longer wait, in seconds, is asked again all the same.
LONGEST_WAIT = 600.0


@dataclass(frozen=True)
class Capabilities:
    """What this backend needs and gives."""

    is_local: bool = True
    gives_rollouts: bool = True
    gives_weights: bool = True
    hyperparameters: frozenset[str] | None = None  # those that it follows; None for all
    supervised_hyperparameters: frozenset[str] | None = None  # the same for learning from demonstrations


@dataclass(frozen=True)
class Problem:
    """Why this backend will not take a spec, in the words a person reads."""

    code: str
    message: str
    param: str = ""
    fix: str = ""


@dataclass
class RunSpec:
    """What is to be trained: the wire spec and the rows, read once."""

    spec: dict[str, Any]
    train: Iterator[dict[str, Any]]
    validation: Iterator[dict[str, Any]]


@dataclass
class Run:
    """One run as its backend knows it. `job_id` is the public id, so a repeated submit finds the first."""

    job_id: str
    run_dir: str = ""
    external_id: str = ""
    process: dict[str, Any] = field(default_factory=dict)
    connection: dict[str, str] = field(default_factory=dict)  # base_url and api_key of a hosted provider


@dataclass
class Chunk:
    """Some events and the cursor behind them."""

    events: list[dict[str, Any]]
    cursor: int


@dataclass(frozen=True)
class Health:
    """Whether the work goes on. `heartbeat_at` is in Unix seconds; `last_words` is for the person."""

    is_alive: bool
    heartbeat_at: float | None = None
    last_words: str = ""


class Backend(Protocol):
    """Who trains."""

    name: str
    label: str
    capabilities: Capabilities

    def validate(self, spec: dict[str, Any]) -> list[Problem]:
        """What would make a submit fail, found before anything is spent."""

    def notices(self, spec: dict[str, Any]) -> list[str]:
        """What a person should know before the launch, such as the day a base model ends."""

    def submit(self, run: Run, work: RunSpec) -> Run:
        """Start, or go on from the newest whole checkpoint. Twice with one `job_id` starts one run."""

    def poll(self, run: Run, cursor: int) -> Iterator[Chunk]:
        """Events after the cursor, in order."""

    def health(self, run: Run) -> Health: ...

    def pause(self, run: Run) -> None:
        """Ask for a pause at the end of the train step. May be asked again."""

    def cancel(self, run: Run, *, grace: float) -> bool:
        """Ask for the end; after `grace` seconds make it. True when nothing works any more. May be asked again."""

    def results(self, run: Run) -> dict[str, bytes]:
        """Name → content of the files a provider wrote about an ended run; empty where the events were all there is."""

    def export(self, run: Run, path: str, target: Path) -> Path:
        """Copy a checkpoint's weights and tokenizer to a folder that a server can load; UserError where it keeps them."""
