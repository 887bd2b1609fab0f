"""`python -m bench [name…]`: run the measures and print one JSON object. Exit status 1 when one failed."""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys

import bench
from bench import registry


def main() -> int:
    for found in pkgutil.iter_modules(bench.__path__):
        if found.name.startswith("measure_"):
            importlib.import_module(f"bench.{found.name}")
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("names", nargs="*", help="Measures to run; none: all.")
    parser.add_argument("--list", action="store_true", help="Only show what there is.")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(registry.MEASURES)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(registry.MEASURES)}")
    if chosen.list:
        for name, function in registry.MEASURES.items():
            print(f"{name:<24} {(function.__doc__ or '').strip().partition(chr(10))[0]}")
        return 0
    results = {}
    for name in chosen.names or registry.MEASURES:
        print(f"bench: {name}…", file=sys.stderr, flush=True)
        results[name] = registry.run(name)
    print(json.dumps({"machine": _machine(), "results": results}, indent=2))
    return 1 if any("failed" in result for result in results.values()) else 0


def _machine() -> dict:
    """What one needs to know before comparing; the load tells whether the figures can be trusted."""
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load_before": load,
    }


if __name__ == "__main__":
    sys.exit(main())
