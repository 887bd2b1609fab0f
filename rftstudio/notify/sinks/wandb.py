"""Weights & Biases by its own package. The run's id is the job's, so that going on finds the same run."""

from jobs.models import Job
from rftstudio.core.errors import UpstreamUnavailable

_EXIT = {"succeeded": 0, "failed": 1, "cancelled": 255}


class WandbWriter:
    def __init__(
        self, *, url: str, project: str, secret: str, name: str = "", entity: str | None = None,
        tags: list[str] | None = None,
    ) -> None:  # fmt: skip
        self.url, self.secret = url, secret
        self.project, self.name, self.entity, self.tags = project, name, entity, tags

    def write(self, job: Job, external_id: str, rows: list[tuple[int, dict[str, float]]], *, ended: str) -> str:
        import wandb

        run_id = external_id or job.public_id
        options = {"base_url": self.url} if self.url else {}
        try:
            run = wandb.init(
                project=self.project, entity=self.entity, tags=self.tags, id=run_id, resume="allow",
                name=self.name or job.name or f"Job {job.number}",
                config={"plan": job.plan, "backend": job.backend, "studio_job": job.public_id},
                settings=wandb.Settings(
                    api_key=self.secret or None, silent=True, console="off", disable_git=True, save_code=False,
                    x_disable_stats=True, x_disable_meta=True, init_timeout=30, **options,
                ),
            )  # fmt: skip
            for step, values in rows:
                run.log(values, step=step)
            run.finish(exit_code=_EXIT.get(ended, 0))
        except Exception as exc:  # its errors have no family of their own
            raise UpstreamUnavailable(f"Weights & Biases: {type(exc).__name__}.") from exc
        return run_id
