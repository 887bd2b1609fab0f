"""Asks the web server in this container for /healthz, by a name that its settings allow. Standard library only."""

import os
import sys
import urllib.request

host = os.environ.get("ALLOWED_HOSTS", "localhost").split(",")[0].strip().lstrip(".") or "localhost"
request = urllib.request.Request("http://127.0.0.1:8000/healthz", headers={"Host": host})
try:
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  our own address
        sys.exit(0 if answer.status == 200 else 1)
except OSError as exc:
    sys.exit(f"healthz: {exc}")
