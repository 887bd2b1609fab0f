"""Fixtures of the jobs room, for the contract suites."""

from tests.jobs.conftest import ready_baseline, trainer  # noqa: F401
