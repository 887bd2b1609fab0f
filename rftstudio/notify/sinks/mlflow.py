"""MLflow over its REST API, version 2.0, through the guarded client. One experiment for the project, one run for each job."""

import time
from typing import Any

from jobs.models import Job
from rftstudio.core.errors import UpstreamRefused, UpstreamUnavailable
from rftstudio.core.outbound import allowed_hosts, sync_client

_API = "/api/2.0/mlflow"
_AT_ONCE = 900  # MLflow takes 1000 metrics in a call
_ENDS = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}


class MlflowWriter:
    def __init__(self, *, url: str, project: str, secret: str) -> None:
        self.url, self.project = url.rstrip("/"), project
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self.client = sync_client(allowed=allowed_hosts(), seconds=20.0, headers=headers)

    def write(self, job: Job, external_id: str, rows: list[tuple[int, dict[str, float]]], *, ended: str) -> str:
        with self.client:
            run = external_id or self._run_make(job)
            now = int(time.time() * 1000)
            metrics = [
                {"key": name, "value": value, "step": step, "timestamp": now}
                for step, values in rows
                for name, value in values.items()
            ]
            for start in range(0, len(metrics), _AT_ONCE):
                self._ask("POST", "/runs/log-batch", {"run_id": run, "metrics": metrics[start : start + _AT_ONCE]})
            if ended:
                self._ask("POST", "/runs/update", {"run_id": run, "status": _ENDS[ended], "end_time": now})
            return run

    def _run_make(self, job: Job) -> str:
        started = job.started_at or job.created_at
        made = self._ask("POST", "/runs/create", {
            "experiment_id": self._experiment(),
            "run_name": job.name or f"Job {job.number}",
            "start_time": int(started.timestamp() * 1000),
            "tags": [{"key": "studio.job", "value": job.public_id}, {"key": "studio.backend", "value": job.backend}],
        })  # fmt: skip
        return str(made["run"]["info"]["run_id"])

    def _experiment(self) -> str:
        found = self._ask("GET", "/experiments/get-by-name", {"experiment_name": self.project}, missing_is_none=True)
        if found:
            return str(found["experiment"]["experiment_id"])
        return str(self._ask("POST", "/experiments/create", {"name": self.project})["experiment_id"])

    def _ask(self, method: str, path: str, body: dict[str, Any], *, missing_is_none: bool = False) -> dict[str, Any]:
        import httpx2

        sent: dict[str, Any] = {"params": body} if method == "GET" else {"json": body}
        try:
            answer = self.client.request(method, f"{self.url}{_API}{path}", **sent)
        except httpx2.HTTPError as exc:
            raise UpstreamUnavailable(f"MLflow did not answer ({type(exc).__name__}).") from exc
        if answer.status_code == 404 and missing_is_none:
            return {}
        if answer.status_code >= 500 or answer.status_code == 429:
            raise UpstreamUnavailable(f"MLflow answered {answer.status_code}.")
        if answer.status_code >= 400:
            raise UpstreamRefused(f"MLflow answered {answer.status_code}: {answer.text[:120]}")
        try:
            return answer.json()
        except ValueError as exc:
            raise UpstreamRefused("MLflow did not answer JSON.", fix="Check the address of the server.") from exc
