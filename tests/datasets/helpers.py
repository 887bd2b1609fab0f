"""Makes versions from bytes, the way an upload does."""

import io
import json
from pathlib import Path

from datasets.models import DatasetVersion
from datasets.services import dataset_create, dataset_version_import, source_file_upload

CASES = Path(__file__).parents[1] / "data" / "cases"


def row(question: str = "What is 1 plus 1?", **fields) -> dict:
    return {"messages": [{"role": "user", "content": question}], **fields}


def jsonl(*rows: dict) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in rows)


def import_bytes(actor, content: bytes, filename: str = "tasks.jsonl", *, name: str = "Sums", dataset=None, **options):
    """A version with these bytes in it."""
    source_file = source_file_upload(actor=actor, filename=filename, content=io.BytesIO(content))
    dataset = dataset or dataset_create(actor=actor, name=name)
    return dataset_version_import(actor=actor, dataset=dataset, source_file=source_file, **options)


def import_case(actor, path: str, **options) -> DatasetVersion:
    return import_bytes(actor, (CASES / path).read_bytes(), Path(path).name, name=path, **options)


def problems(version: DatasetVersion) -> list[tuple[int, int, str]]:
    return list(version.problems.order_by("line", "pk").values_list("line", "column", "code"))


def warning(version: DatasetVersion, code: str) -> dict | None:
    return next((entry for entry in version.report["warnings"] if entry["code"] == code), None)
