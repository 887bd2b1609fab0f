"""A hosted fine-tuning service that keeps the wire's shapes: files, jobs, events, checkpoints, pause, resume, cancel.

`advance()` moves every job one train step on; with `rolls_out` it first tries items as the real service does, calling the
job's tool and grader addresses over HTTP. `refuse` makes the next create fail with that error. `is_late` leaves the
result file to `write_results`. `interrupt` is asked first, and what it answers is the answer.
"""

import base64
import email.parser
import email.policy
import itertools
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rftstudio.core.sealed import seal
from tests.fakes.server import HttpServer, Reply, Request

Interrupt = Callable[[Request], Reply | None]


class HostedService(HttpServer):
    def __init__(self, *, total_steps: int = 4, rolls_out: bool = False) -> None:
        super().__init__(self._answer)
        self.total_steps, self.rolls_out = total_steps, rolls_out
        self.files: dict[str, list[dict]] = {}
        self.sent: list[dict[str, Any]] = []  # the files as objects, oldest first
        self.jobs: dict[str, dict[str, Any]] = {}
        self.told: dict[str, dict[str, Any]] = {}  # job id → the create request
        self.events: dict[str, list[dict]] = {}
        self.checkpoints: dict[str, list[dict]] = {}
        self.results: dict[str, bytes] = {}
        self.refuse: tuple[int, dict] | None = None
        self.is_down = False
        self.interrupt: Interrupt = lambda request: None
        self.knows_metadata = True  # lists only the jobs whose metadata is asked for
        self.is_late = False  # writes no result file by itself
        self._ids = itertools.count(1)

    # -- the clock ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """One train step for each running job; queued ones start."""
        for job_id, job in self.jobs.items():
            if job["status"] in {"validating_files", "queued"}:
                job["status"] = "running"
                self._say(job_id, "Fine-tuning job started")
            elif job["status"] == "running":
                self._step(job_id, job)

    def _step(self, job_id: str, job: dict) -> None:
        step = len(self.checkpoints[job_id]) + 1
        if self.rolls_out:
            self._roll_out(job_id, job, step)
        reward = 0.3 + 0.1 * step
        data = {
            "step": step, "total_steps": self.total_steps, "train_mean_reward": reward, "full_valid_mean_reward": reward,
            "timing": {"step": {"full_iteration": 12.5}}, "a_key_of_tomorrow": {"kept": True},
        }  # fmt: skip
        self._say(job_id, f"Step {step}/{self.total_steps}, train mean reward={reward:.2f}", "metrics", data)
        self.checkpoints[job_id].append(
            {"object": "fine_tuning.job.checkpoint", "id": f"ftckpt_{step}", "created_at": int(time.time()),
             "fine_tuned_model_checkpoint": f"ft:{job['model']}:org:x:1:ckpt-step-{step}", "fine_tuning_job_id": job_id,
             "step_number": step, "metrics": {"step": step, "full_valid_mean_reward": reward}}
        )  # fmt: skip
        if step == self.total_steps:
            job.update(status="succeeded", finished_at=int(time.time()), fine_tuned_model=f"ft:{job['model']}:org:x:1")
            if not self.is_late:
                self.write_results(job_id)
            self._say(job_id, "The job has successfully completed")

    def write_results(self, job_id: str) -> None:
        """A line for each train step, in base64 as older result files are."""
        steps = [row["metrics"] for row in self.checkpoints[job_id]]
        lines = [f"{row['step']},,{row['full_valid_mean_reward']}" for row in steps]
        table = "\n".join(["step,train_mean_reward,full_valid_mean_reward", *lines])
        self.results[f"file-{job_id}"] = base64.b64encode(table.encode())
        self.jobs[job_id]["result_files"] = [f"file-{job_id}"]

    def _roll_out(self, job_id: str, job: dict, step: int) -> None:
        """Each item of the training file twice: one tool call, then the grader, with the rollout's trace id."""
        method = self.told[job_id]["method"]["reinforcement"]
        for place, item in enumerate(self.files[job["training_file"]]):
            for turn in range(2):
                trace = f"trace_{job_id}_{step}_{place}_{turn}"
                for tool in method.get("tools", [])[:1]:
                    body = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool["name"],
                            "arguments": json.dumps({"a": 1, "b": place}), "trace_id": trace, "item": item}  # fmt: skip
                    _post(tool["server_url"], body)
                text = item["answer"] if turn else "no idea"
                sample = {"output_text": text, "output_json": None, "output_tools": [], "choices": []}
                _post(method["grader"]["url"], {"sample": sample, "item": item, "trace_id": trace})

    def _say(self, job_id: str, message: str, type: str = "message", data: dict | None = None) -> None:
        event = {"object": "fine_tuning.job.event", "id": f"ftevent-{next(self._ids)}", "created_at": int(time.time()),
                 "level": "info", "message": message, "type": type, "data": data}  # fmt: skip
        self.events[job_id].append(event)

    # -- the wire -----------------------------------------------------------------------------------------------------

    def take(self, model) -> None:
        """Make a stored model one that is trained and asked here."""
        model.kind, model.model, model.base_url = "openai", "gpt-5-2025-08-07", self.url + "/v1"
        model.is_trainable, model.api_key_sealed = False, seal("sk-fake")
        model.save()

    def _answer(self, request: Request) -> Reply:
        if self.is_down:
            return Reply.of({"error": {"message": "bad gateway"}}, 502)
        if reply := self.interrupt(request):
            return reply
        parts = urlsplit(request.path)
        path, query = parts.path.removeprefix("/v1/").strip("/").split("/"), parse_qs(parts.query)
        if request.headers.get("authorization") != "Bearer sk-fake":
            return _error(401, "Incorrect API key provided.", "invalid_api_key")
        if path == ["files"]:
            return self._file(request) if request.method == "POST" else self._page(self.sent[::-1], query)
        if path[0] == "files" and path[1] in self.results:
            content = self.results[path[1]]
            if path[2:] == ["content"]:
                return Reply(200, content, {"Content-Type": "text/csv"})
            return Reply.of({"id": path[1], "object": "file", "bytes": len(content), "created_at": int(time.time()),
                             "filename": "step_metrics.csv", "purpose": "fine-tune-results", "status": "processed"})  # fmt: skip
        if path[:2] == ["fine_tuning", "jobs"]:
            return self._job(request, path[2:], query)
        return _error(404, "Unknown request URL", "not_found")

    def _file(self, request: Request) -> Reply:
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
        fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        content = fields["file"].get_payload(decode=True)
        file_id = f"file-{next(self._ids)}"
        self.files[file_id] = [json.loads(line) for line in content.splitlines() if line.strip()]
        self.sent.append(
            {"id": file_id, "object": "file", "bytes": len(content), "created_at": int(time.time()),
             "filename": fields["file"].get_filename(), "purpose": "fine-tune", "status": "processed"}
        )  # fmt: skip
        return Reply.of(self.sent[-1])

    def _job(self, request: Request, path: list[str], query: dict) -> Reply:
        if not path and request.method == "POST":
            return self.create(request.json())
        if not path:
            wanted = {key[9:-1]: value[0] for key, value in query.items() if key.startswith("metadata[")}
            if not self.knows_metadata:
                wanted = {}
            found = [job for job in self.jobs.values() if wanted.items() <= (job["metadata"] or {}).items()]
            return self._page(found[::-1], query)
        job = self.jobs.get(path[0])
        if job is None:
            return _error(404, "No such job", "not_found")
        verb = path[1] if len(path) > 1 else ""
        if verb == "events":
            return self._page(self.events[path[0]][::-1], query)
        if verb == "checkpoints":
            return self._page(self.checkpoints[path[0]][::-1], query)
        return self._move(job, verb) if verb else Reply.of(job)

    def create(self, told: dict) -> Reply:
        if self.refuse:
            status, error = self.refuse
            return Reply.of({"error": error}, status)
        job_id = f"ftjob-remote{next(self._ids)}"
        self.told[job_id], self.events[job_id], self.checkpoints[job_id] = told, [], []
        self.jobs[job_id] = {
            "id": job_id, "object": "fine_tuning.job", "created_at": int(time.time()), "error": {}, "fine_tuned_model": None,
            "finished_at": None, "hyperparameters": {}, "model": told["model"], "organization_id": "org-1",
            "result_files": [], "seed": told.get("seed"), "status": "validating_files", "trained_tokens": None,
            "training_file": told["training_file"], "validation_file": told.get("validation_file"),
            "metadata": told.get("metadata"), "method": told["method"],
        }  # fmt: skip
        self._say(job_id, "Created fine-tuning job")
        return Reply.of(self.jobs[job_id])

    def _move(self, job: dict, verb: str) -> Reply:
        may = {
            "cancel": {"validating_files", "queued", "running", "paused"},
            "pause": {"running"},
            "resume": {"paused"},
        }
        to = {"cancel": "cancelled", "pause": "paused", "resume": "queued"}
        if job["status"] not in may.get(verb, set()):
            return _error(400, f"Cannot {verb} a job that is {job['status']}.", "invalid_state")
        job["status"] = to[verb]
        if verb == "cancel":
            job["finished_at"] = int(time.time())
        self._say(job["id"], f"Job {to[verb]}")
        return Reply.of(job)

    def _page(self, rows: list[dict], query: dict) -> Reply:
        after, limit = query.get("after", [None])[0], int(query.get("limit", ["20"])[0])
        start = next((n + 1 for n, row in enumerate(rows) if row["id"] == after), 0)
        page = rows[start : start + limit]
        return Reply.of({"object": "list", "data": page, "has_more": start + limit < len(rows),
                         "first_id": None, "last_id": None})  # fmt: skip


def _error(status: int, message: str, code: str) -> Reply:
    return Reply.of(
        {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}, status
    )


def _post(url: str, body: dict) -> dict:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)
