"""Notices in the browser: a webhook's secret is shown once, its test says what came back; the API's page runs under the policy."""

import pytest

from rftstudio.notify.models import Webhook
from tests.browser.conftest import *  # noqa: F403
