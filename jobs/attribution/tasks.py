"""Celery's door to the attribution room."""

from celery import shared_task


@shared_task(acks_late=True)
def attribution_compute(batch_id: int, methods: list[str] | None = None) -> None:
    """Credit a whole batch; running it twice stores the same."""
    from jobs.attribution import services
    from jobs.rollouts.models import RolloutBatch

    batch = RolloutBatch.objects.filter(pk=batch_id).first()
    if batch is not None:
        services.attribution_compute(rollouts=batch, methods=methods)
