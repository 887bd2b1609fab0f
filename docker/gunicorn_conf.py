"""How gunicorn serves in production. Its own lines are JSON like all others."""

import os

from rftstudio.core.logs import logging_config

bind = "0.0.0.0:8000"
worker_class = "gthread"
workers = int(os.environ.get("WEB_WORKERS") or 2)
threads = 8
timeout = 120
graceful_timeout = 20
control_socket_disable = True
# Workers prove that they live by touching a file; a container's /tmp may be on a disk that stalls.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108

_logs = logging_config(as_json=True, level=os.environ.get("STUDIO_LOG_LEVEL", "").upper() or "INFO")
_own = {"handlers": ["stream"], "level": "INFO", "propagate": False}
# No access lines: each request has its line from our middleware, with its id.
_access = {**_own, "level": "WARNING"}
logconfig_dict = {**_logs, "loggers": {**_logs["loggers"], "gunicorn.error": _own, "gunicorn.access": _access}}
