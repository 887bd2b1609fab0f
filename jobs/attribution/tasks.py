"""Celery's door to the attribution room."""

from celery import shared_task


@shared_task(acks_late=True)
def judge_run(rollout_id: int) -> None:
    """Ask the judge of a rollout; one that was asked already is left alone."""
    from jobs.attribution import judge

    judge.judge_run(rollout_id=rollout_id)


@shared_task(acks_late=True)
def knowledge_read(rollout_id: int) -> None:
    """Read a policy's log-probabilities; one that nobody asked for, or was read already, is left alone."""
    from jobs.attribution import knowledge

    knowledge.knowledge_read(rollout_id=rollout_id)


@shared_task
def credit_sweep() -> None:
    """End re-runs that are done or out of money, and ask again where the worker of a judge or of a reading died."""
    from jobs.attribution import judge, knowledge, rerun

    rerun.reruns_sweep()
    judge.judges_sweep()
    knowledge.knowledge_sweep()


@shared_task(acks_late=True)
def attribution_compute(batch_id: int, methods: list[str] | None = None) -> None:
    """Credit a whole batch; running it twice stores the same."""
    from jobs.attribution import services
    from jobs.rollouts.models import RolloutBatch

    batch = RolloutBatch.objects.filter(pk=batch_id).first()
    if batch is not None:
        services.attribution_compute(rollouts=batch, methods=methods)
