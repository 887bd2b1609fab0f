"""Celery's door to notices."""

from celery import shared_task


@shared_task(acks_late=True)
def delivery_send(delivery_id: int) -> None:
    from rftstudio.notify import sending

    sending.delivery_send(delivery_id=delivery_id)


@shared_task
def notices_sweep() -> None:
    from rftstudio.notify import services

    services.notices_sweep()


@shared_task
def sinks_sweep() -> None:
    from rftstudio.notify.sinks import copying

    copying.sinks_sweep()
