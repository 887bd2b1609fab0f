"""Keeps the secrets of an address and its headers out of everything that is stored or shown. Portable."""

from urllib.parse import parse_qsl, urlsplit

HIDDEN = "[hidden]"
#: Shorter values would blot out ordinary words.
LEAST = 4


def secrets_of(url: str, headers: dict[str, str]) -> list[str]:
    """The texts of an address and its headers that must appear nowhere else, longest first."""
    try:
        split = urlsplit(url)
        found = {value for _, value in parse_qsl(split.query)} | {split.password or "", split.username or ""}
    except ValueError:
        found = set()
    for name, value in headers.items():
        if name.lower() != "content-type":
            found |= {value, value.removeprefix("Bearer ").removeprefix("Basic ").strip()}
    return sorted((value for value in found if len(value) >= LEAST), key=len, reverse=True)


def scrub(text: str, hidden: list[str]) -> str:
    """The text without any of the given secrets."""
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text
