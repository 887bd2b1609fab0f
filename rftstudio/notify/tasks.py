"""Celery's door to notices."""

from celery import shared_task
from django.db import transaction


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


def wake(delivery_id: int) -> None:
    """Have a worker send it after the commit; a broker that is down is made up for by the sweep."""

    def send() -> None:
        from kombu.exceptions import OperationalError

        try:
            delivery_send.apply_async((delivery_id,), retry=False)
        except (OperationalError, OSError):
            return

    transaction.on_commit(send)
