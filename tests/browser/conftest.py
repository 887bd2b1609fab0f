"""Drives Debian's Chromium against a live server. Skips where there is no Chromium.

`signed_in_page(actor)` opens pages as that person; `axe(page)` lists accessibility faults; `picture(page, name)` keeps
screenshots when STUDIO_PICTURES names a folder. Every page fails its test when the browser console reports an error.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rftstudio.teams.actor import Actor

playwright_api = pytest.importorskip("playwright.sync_api")

AXE = Path(__file__).parents[1] / "data" / "axe" / "axe-4.14.1.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = {"wide": (1440, 900), "middle": (1280, 800), "phone": (390, 844)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium on this machine"))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict:
    return {"executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained about: script errors and violations of the content policy."""
    return []


@pytest.fixture
def open_page(browser, live_server, complaints) -> Callable:
    """`open_page(width="phone", theme="dark")`: a fresh page of a visitor; closes and checks itself at the end."""
    contexts = []

    def fresh(*, width: str = "wide", theme: str = "light", script: bool = True):
        w, h = WIDTHS[width]
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": w, "height": h},
            color_scheme=theme,
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        return page

    yield fresh
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def signed_in_page(open_page, client, live_server) -> Callable:
    """`signed_in_page(actor, width=…, theme=…)`: as `open_page`, signed in."""

    def fresh(actor: Actor, **how):
        client.force_login(actor.user, backend="django.contrib.auth.backends.ModelBackend")
        page = open_page(**how)
        page.context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
        )
        return page

    return fresh


@pytest.fixture
def axe() -> Callable:
    """`axe(page)`: the faults that axe-core finds by WCAG 2.2 AA, as "rule: where"."""
    source = AXE.read_text()

    def faults(page) -> list[str]:
        # As tall as the page is: a bar fixed to the window's foot would cut a row that scrolling shows whole.
        size = page.viewport_size
        whole = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": max(size["height"], min(whole, 12_000))})
        page.evaluate(source)
        result = page.evaluate(
            "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
        )
        page.set_viewport_size(size)
        return [
            f"{fault['id']}: {node['target']} {' '.join(node['failureSummary'].split())[:160]}"
            for fault in result["violations"]
            for node in fault["nodes"]
        ]

    return faults


@pytest.fixture
def picture() -> Callable:
    """`picture(page, "home")` keeps a screenshot in the folder STUDIO_PICTURES, else does nothing."""
    folder = os.environ.get("STUDIO_PICTURES", "")

    def keep(page, name: str, *, whole: bool = False) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            # Hiding the caret would leave style attributes behind, which htmx copies and the content policy refuses.
            page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=whole, caret="initial")

    return keep
