"""Hosted training through the OpenAI fine-tuning API: OpenAI, Azure, another Studio. No tables here.

Tools and grader are called back through Studio's recording gateway, so rollouts come home by themselves; this side brings
status, events, metrics and checkpoints. Fields that the SDK has no types for travel in its untyped part.
"""

import base64
import binascii
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from jobs.backends.base import Capabilities, Chunk, Health, Problem, Run, RunSpec
from jobs.backends.openai import reading
from jobs.backends.openai.reading import told
from jobs.backends.openai.refusals import refused, shutdowns
from jobs.plan import SUPERVISED_WIRE_NAMES, WIRE_NAMES
from jobs.rollouts.engine.messages import opening_messages
from rftstudio.core.errors import UserError

ENDED = {"succeeded", "failed", "cancelled", "paused"}
PAGE = 100
MOST_RESULTS = 5
#: So many of the provider's newest jobs and files are looked through for ours.
MOST_LOOKED_AT = 1000
#: Seconds for an answer, and for sending a file. All of a submit fits into the lease of its look.
ANSWER_SECONDS, UPLOAD_SECONDS = 60.0, 180.0


class OpenAIBackend:
    """One remote job for each run, found again by the run's id in its metadata."""

    name = "openai"
    label = "Hosted"
    capabilities = Capabilities(
        is_local=False,
        gives_rollouts=False,
        gives_weights=False,
        hyperparameters=frozenset(WIRE_NAMES),
        supervised_hyperparameters=frozenset(SUPERVISED_WIRE_NAMES),
    )

    def validate(self, spec: dict[str, Any]) -> list[Problem]:
        problems: list[Problem] = []
        if not spec.get("base_model"):
            problems.append(Problem("model_missing", "The baseline's model has no name on the wire.", "model"))
        if _is_supervised(spec):
            return problems  # no tool and no grader is called while it trains
        unreachable = [tool["name"] for tool in _tools(spec) if not tool["server_url"]]
        if unreachable:
            problems.append(
                Problem(
                    "tools_not_reachable",
                    f"The provider cannot call {', '.join(unreachable)}: they run inside Studio.",
                    "method.reinforcement.tools",
                    "Set STUDIO_PUBLIC_URL to the address at which the provider reaches Studio.",
                )
            )
        return problems

    def notices(self, spec: dict[str, Any]) -> list[str]:
        """Dates known for the base model, shown before the launch."""
        return shutdowns(str(spec.get("base_model") or ""), str(spec.get("base_url") or ""))

    def submit(self, run: Run, work: RunSpec) -> Run:
        """Create the remote job, find the one an earlier submit made, or resume it when it is paused."""
        with refused(), _client(run) as client:
            remote = self._find(client, run)
            if remote is None:
                remote = self._create(client, run, work)
            elif remote.status == "paused":
                remote = told(client.fine_tuning.jobs.resume(remote.id), "id", "status")
        return Run(run.job_id, external_id=remote.id, connection=run.connection)

    def _find(self, client: Any, run: Run) -> Any | None:
        if run.external_id:
            return told(client.fine_tuning.jobs.retrieve(run.external_id), "id", "status")
        found = reading.rows(lambda: client.fine_tuning.jobs.list(metadata={"studio_job": run.job_id}, limit=PAGE))
        # A server that ignores the filter lists strangers' jobs too: neither adopt one of those nor miss ours among them.
        named = ((reading.inner(job.metadata, "studio_job"), job) for job in islice(found, MOST_LOOKED_AT))
        mine = next((job for name, job in named if name == run.job_id), None)
        return mine and told(mine, "id", "status")

    def _create(self, client: Any, run: Run, work: RunSpec) -> Any:
        spec, sent = work.spec, _sent_before(client, run)
        files = {"training_file": _upload(client, f"{run.job_id}-train.jsonl", work.train, spec, sent)}
        if not _is_supervised(spec):  # there the provider would want demonstrations for validation too
            files["validation_file"] = _upload(client, f"{run.job_id}-validation.jsonl", work.validation, spec, sent)
        with refused(acts=True):
            made = client.fine_tuning.jobs.create(
                model=spec["base_model"],
                **files,
                seed=abs(int(spec.get("seed") or 0)) % 2**31,
                suffix=run.job_id.removeprefix("ftjob-")[:18],
                metadata={"studio_job": run.job_id},
                extra_body={
                    "method": supervised(spec)
                    if _is_supervised(spec)
                    else {"type": "reinforcement", "reinforcement": reinforcement(spec)}
                },
            )
            return told(made, "id", "status", acts=True)

    def poll(self, run: Run, cursor: int) -> Iterator[Chunk]:
        """The cursor counts the provider's events. Checkpoints and the end have numbers of their own."""
        if not run.external_id:
            return
        with refused(), _client(run) as client:
            remote = told(client.fine_tuning.jobs.retrieve(run.external_id), "status")
            jobs = client.fine_tuning.jobs
            listed = list(reading.rows(lambda: jobs.list_events(run.external_id, limit=PAGE)))[::-1]
            fresh = listed[cursor:]
            events = [reading.event(one, cursor + place + 1) for place, one in enumerate(fresh)]
            if events or remote.status in ENDED:
                found = list(reading.rows(lambda: jobs.checkpoints.list(run.external_id, limit=PAGE)))
                events += [reading.checkpoint(one) for one in reversed(found)]
        if remote.status in ENDED:
            events.append(reading.finished(remote, listed, events))
        if events:
            yield Chunk(events, len(listed))

    def health(self, run: Run) -> Health:
        """The provider looks after its own machines; that it answers is the sign of life."""
        return Health(True)

    def pause(self, run: Run) -> None:
        """A job that does not train yet has no train step to end; it is asked again once it does."""
        self._ask(run, "pause", unless=ENDED | {"pausing", "validating_files", "queued"})

    def cancel(self, run: Run, *, grace: float) -> bool:
        """True once the provider says so. `grace` has no force here: nobody can kill a hosted job."""
        if not run.external_id:
            run = self._as_found(run)
        return not run.external_id or self._ask(run, "cancel", unless={"succeeded", "failed", "cancelled"}) in {
            "succeeded", "failed", "cancelled",
        }  # fmt: skip

    def _as_found(self, run: Run) -> Run:
        """A run whose start nobody could note down may be at the provider all the same."""
        with refused(), _client(run) as client:
            remote = self._find(client, run)
        return replace(run, external_id=remote.id) if remote else run

    def _ask(self, run: Run, verb: str, *, unless: set[str]) -> str:
        if not run.external_id:
            return ""
        with refused(), _client(run) as client:
            status = _status(client.fine_tuning.jobs.retrieve(run.external_id))
            if status in unless:
                return status
            return _status(getattr(client.fine_tuning.jobs, verb)(run.external_id))

    def results(self, run: Run) -> dict[str, bytes]:
        if not run.external_id:
            return {}
        with refused(), _client(run) as client:
            ids = told(client.fine_tuning.jobs.retrieve(run.external_id), "status").result_files
            known = [one for one in ids if isinstance(one, str) and one] if isinstance(ids, list) else []
            return {
                told(client.files.retrieve(one), "filename").filename: _plain(client.files.content(one).read())
                for one in known[:MOST_RESULTS]
            }

    def export(self, run: Run, path: str, target: Path) -> Path:
        raise UserError("The provider keeps the weights.", fix="Serve the checkpoint by its name at the provider.")


def _client(run: Run) -> Any:
    """The SDK behind the guarded network client. It repeats nothing by itself: each look asks anew, after the wait that
    the provider wishes, and a create that was cut off may have been heard."""
    import openai

    from rftstudio.core.outbound import allowed_hosts, sync_client

    return openai.OpenAI(
        api_key=run.connection.get("api_key") or "none",
        base_url=run.connection.get("base_url") or None,
        http_client=sync_client(allowed=allowed_hosts()),
        max_retries=0,
        timeout=ANSWER_SECONDS,
    )


def _status(remote: Any) -> str:
    """The job's status; another Studio tells the finer word (pausing, cancelling) beside the wire's."""
    finer = str(reading.inner(getattr(remote, "studio", None), "status"))
    return finer if finer in {"pausing", "cancelling"} else told(remote, "status").status


def _plain(content: bytes) -> bytes:
    """Older result files are text in base64, which holds neither comma nor line break within."""
    try:
        return content if b"," in content else base64.b64decode(content, validate=True)
    except binascii.Error:
        return content


def _tools(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the provider finds each tool: at the gateway, or at the tool's own server."""
    gateway = spec.get("gateway") or {}
    tools = []
    for tool in spec["agent"]["tools"]:
        own = tool.get("config", {}).get("server_url", "") if tool.get("transport") == "http" else ""
        url = gateway.get("tool") or own
        headers = {} if gateway.get("tool") else tool.get("headers") or {}
        tools.append({"name": tool["name"], "server_url": url} | ({"headers": headers} if headers else {}))
    return tools


def _is_supervised(spec: dict[str, Any]) -> bool:
    return spec.get("method") == "supervised"


def supervised(spec: dict[str, Any]) -> dict[str, Any]:
    """`method` for learning from demonstrations; the provider chooses its own learning rate, times our multiplier."""
    asked = spec.get("hyperparameters") or {}
    kept = {name: asked[name] for name in SUPERVISED_WIRE_NAMES if name in asked}
    return {"type": "supervised", "supervised": {"hyperparameters": kept}}


def reinforcement(spec: dict[str, Any]) -> dict[str, Any]:
    """`method.reinforcement` as the provider reads it; the grader goes through the gateway where there is one."""
    agent, gateway = spec["agent"], spec.get("gateway") or {}
    grader = spec["grader"]
    if gateway.get("grader"):
        grader = {"type": "endpoint", "name": "studio", "url": gateway["grader"]}
    asked: dict[str, Any] = {
        "grader": grader,
        "hyperparameters": spec.get("hyperparameters") or {},
    }
    if tools := _tools(spec):
        asked["tools"] = tools
        if steps := (agent.get("limits") or {}).get("max_steps"):
            asked["max_episode_steps"] = steps
    if agent.get("response_format"):
        asked["response_format"] = agent["response_format"]
    return asked


def _sent_before(client: Any, run: Run) -> dict[tuple[str, int], str]:
    """(name, bytes) → id of the files that an earlier try sent before its create failed."""
    import openai

    with suppress(openai.NotFoundError):  # not every server lists files
        listed = islice(reading.rows(lambda: client.files.list(purpose="fine-tune", limit=PAGE)), MOST_LOOKED_AT)
        mine = [one for one in listed if str(one.filename).startswith(run.job_id) and one.status != "error"]
        return {(one.filename, one.bytes): one.id for one in mine}
    return {}


def _upload(
    client: Any, name: str, rows: Iterator[dict[str, Any]], spec: dict[str, Any], sent: dict[tuple[str, int], str]
) -> str:
    """A file of rows: messages with the agent's prompt, the tools' schemas, and every field the grader may read."""
    schemas = [
        {"type": "function", "function": {key: tool.get(key) for key in ("name", "description", "parameters")}}
        for tool in spec["agent"]["tools"]
    ]
    lines = []
    for row in rows:
        item = dict(row["item"])
        item["messages"] = opening_messages(item, spec["agent"].get("system_prompt") or "") + list(
            row.get("turns") or []
        )
        if row.get("turns"):
            item = {"messages": item["messages"]}  # the supervised format knows no other field
        if schemas:
            item["tools"] = schemas
        lines.append(json.dumps(item, ensure_ascii=False))
    content = ("\n".join(lines) + "\n").encode()
    if found := sent.get((name, len(content))):
        return found
    file = (name, io.BytesIO(content))
    return told(client.files.create(file=file, purpose="fine-tune", timeout=UPLOAD_SECONDS), "id").id
