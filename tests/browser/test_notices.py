"""Notices in the browser: a webhook's secret is shown once, its test says what came back; the API's page runs under the policy."""

from tests.browser.conftest import *  # noqa: F403
