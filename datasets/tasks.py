"""Celery's door to this room."""

from celery import shared_task


@shared_task(acks_late=True)
def dataset_version_import(file_import_id: int) -> None:
    from datasets import services

    services.file_import_run(file_import_id=file_import_id)


@shared_task
def imports_sweep() -> None:
    from datasets import services

    services.imports_sweep()


@shared_task(acks_late=True)
def near_repeats_find(version_id: int) -> None:
    from datasets import near_finding

    near_finding.near_repeats_find(version_id=version_id)


@shared_task(acks_late=True)
def version_recount(version_id: int) -> None:
    from datasets import services

    services.version_recount(version_id=version_id)
