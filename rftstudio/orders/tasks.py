"""Celery's door to orders."""

from celery import shared_task


@shared_task
def order_advance(order_id: int) -> None:
    from rftstudio.orders import services

    services.order_advance(order_id=order_id)


@shared_task
def orders_advance() -> None:
    from rftstudio.orders import services

    services.orders_advance()


@shared_task
def file_check(source_file_id: int) -> None:
    from rftstudio.orders import files

    files.file_check(source_file_id=source_file_id)


@shared_task
def files_sweep() -> None:
    from rftstudio.orders import files

    files.files_sweep()
