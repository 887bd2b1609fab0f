"""Celery's door to jobs. Every task is short: training lives in a process of its own."""

from celery import shared_task


@shared_task
def job_start(job_id: int) -> None:
    from jobs import services

    services.job_start(job_id=job_id)


@shared_task
def job_sync(job_id: int) -> None:
    from jobs import services

    services.job_sync(job_id=job_id)


@shared_task
def jobs_sync() -> None:
    from jobs import services

    services.jobs_sync()


@shared_task
def results_sweep() -> None:
    from jobs import results

    results.results_sweep()


@shared_task
def batch_credit(batch_id: int) -> None:
    from jobs import services

    services.batch_credit(batch_id=batch_id)


@shared_task
def job_credit(job_id: int) -> None:
    from jobs import services

    services.job_credit(job_id=job_id)


@shared_task
def storage_charge() -> None:
    from jobs import checkpoints, storage

    checkpoints.checkpoints_warn()
    checkpoints.checkpoints_expire()  # what has expired is not booked
    storage.storage_charge()
