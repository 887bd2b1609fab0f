"""Trackio by its own package: into its local database, or to the server it is told."""

from jobs.models import Job
from rftstudio.core.errors import UpstreamUnavailable


class TrackioWriter:
    def __init__(self, *, url: str, project: str, secret: str) -> None:
        self.url, self.project, self.secret = url, project, secret

    def write(self, job: Job, external_id: str, rows: list[tuple[int, dict[str, float]]], *, ended: str) -> str:
        import trackio

        name = external_id or job.public_id
        options = {"server_url": self.url} if self.url else {}
        try:
            run = trackio.init(
                project=self.project, name=name, resume="allow", embed=False, auto_log_gpu=False,
                config={"plan": job.plan, "backend": job.backend, "studio_job": job.public_id}, **options,
            )  # fmt: skip
            for step, values in rows:
                run.log(values, step=step)
            run.finish()
        except Exception as exc:  # its errors have no family of their own
            raise UpstreamUnavailable(f"Trackio: {type(exc).__name__}.") from exc
        return name
