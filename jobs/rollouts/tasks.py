"""Celery's door to rollouts."""

from celery import shared_task


@shared_task(acks_late=True)
def rollouts_run(batch_id: int) -> None:
    from jobs.rollouts import services

    services.rollouts_run(batch_id=batch_id)


@shared_task
def rollouts_sweep() -> None:
    from jobs.rollouts import services

    services.rollouts_sweep()


@shared_task
def spans_sweep() -> None:
    from jobs.rollouts import tracing

    tracing.spans_sweep()


@shared_task(acks_late=True)
def regrade_run(run_id: int) -> None:
    from jobs.rollouts import regrade

    regrade.regrade_run(run_id=run_id)


@shared_task
def regrades_sweep() -> None:
    from jobs.rollouts import regrade

    regrade.regrades_sweep()
