"""Static files: vendored ones are unchanged, ours keep to the tokens and the content policy."""

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "static" / "vendor"
OWN_CSS = sorted((ROOT / "static" / "css").rglob("*.css"))
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


@pytest.mark.parametrize("line", (VENDOR / "SHA256SUMS").read_text().splitlines())
def test_vendored_file_is_unchanged(line):
    digest, name = line.split()
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("path", OWN_CSS, ids=lambda path: path.name)
def test_only_the_tokens_name_colours(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    if path.name != "tokens.css":
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(", text) == []
    used = set(re.findall(r"var\((--[\w-]+)", text))
    known = set(re.findall(r"(--[\w-]+):", (ROOT / "static/css/tokens.css").read_text() + text))
    assert used - known == set()


@pytest.mark.parametrize("path", OWN_CSS, ids=lambda path: path.name)
def test_stylesheet_has_balanced_braces(path):
    assert path.read_text().count("{") == path.read_text().count("}")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_template_keeps_to_the_content_policy(path):
    text = re.sub(r"\{#.*?#\}", "", path.read_text())
    assert re.findall(r"\sstyle=|<style|\son\w+=|javascript:|hx-on|hx-vals='js:", text) == []
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (ROOT / "static/css/tokens.css").read_text()
    )
}
TEXT = [
    *[(ink, ground) for ink in ("ink", "ink-2", "ink-3", "accent") for ground in ("surface", "canvas")],
    *[(tone, f"{tone}-soft") for tone in ("ok", "warn", "bad", "run", "idle")],
    ("on-accent", "accent"), ("accent", "accent-soft"), ("plus-ink", "surface"), ("minus-ink", "surface"),
    ("ink-2", "sunken"), ("ink", "hover"),
]  # fmt: skip
MARKS = [(name, "surface") for name in ("line-strong", "c1", "c2", "c3", "c4", "c5", "c6", "plus", "minus")]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ink,ground", TEXT)
def test_text_has_contrast(ink, ground, theme):
    assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("mark,ground", MARKS)
def test_marks_and_edges_have_contrast(mark, ground, theme):
    assert contrast(TOKENS[mark][theme], TOKENS[ground][theme]) >= 3.0
