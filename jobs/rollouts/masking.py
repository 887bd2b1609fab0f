"""Masks: what is taken out of texts before they are stored. Portable: standard library only.

A rule is one of the ready-made kinds, or a word of the team's own in which a star stands for letters, digits, - and _.
There are no free regular expressions: one that is badly written could hold up every rollout of the team.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory

WORDS = "words"
#: Fewer letters than this, stars aside, would take out half of every text.
LEAST_LETTERS = 3

#: Kind → what it finds, in words for the page.
KINDS = {
    "email": "E-mail addresses",
    "phone": "Telephone numbers, written with + and the country",
    "card": "Card numbers (with a right check digit)",
    "iban": "Bank account numbers (IBAN, with right check digits)",
    "key": "Keys and tokens (sk-…, rfts-…, ghp_…, AKIA…, JWT, Bearer …, private keys)",
    WORDS: "A word or phrase of your own; * stands for letters, digits, - and _",
}
_PATTERNS = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    "phone": r"(?<![\w+])\+\d{1,3}(?:[ ()/.-]{0,2}\d{1,5}){2,6}(?!\d)",
    "card": r"(?<![\d.])\d(?:[ -]?\d){12,18}(?!\d|\.\d)",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    "key": (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8000}-----END [A-Z ]{0,30}PRIVATE KEY-----"
        r"|\b(?:sk|rfts|pk|rk|xox[abprs])-[A-Za-z0-9_-]{16,256}|\bgh[pousr]_[A-Za-z0-9]{20,255}|\bAKIA[A-Z0-9]{16}\b"
        r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}"
        r"|(?<=\bBearer )[A-Za-z0-9._~+/=-]{16,4000}"
    ),
}

#: What a text must hold before a pattern is worth trying; found many times quicker. Each follows from its pattern.
_HINTS = {
    "email": re.compile("@"),
    "phone": re.compile(r"\+\d"),
    "card": re.compile(r"\d[\d -]{11}"),
    "iban": re.compile(r"[A-Z][A-Z]\d\d"),
    "key": re.compile("-----BEGIN|sk-|rfts-|pk-|rk-|xox|gh[pousr]_|AKIA|eyJ|Bearer "),
}

_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # twice a digit, its digits added


def _card(text: str) -> bool:
    """Luhn's check digit, ISO/IEC 7812-1 annex B."""
    digits = text.replace(" ", "").replace("-", "")
    total = sum(map(int, digits[-1::-2])) + sum(_DOUBLED[int(digit)] for digit in digits[-2::-2])
    return total % 10 == 0 and len(set(digits)) > 1


def _iban(text: str) -> bool:
    """ISO 7064 mod 97-10."""
    plain = text.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


_CHECKS = {"card": _card, "iban": _iban}


@dataclass(frozen=True)
class Rule:
    """What to take out: a kind, and for a team's own words which."""

    kind: str
    words: str = ""

    @property
    def problem(self) -> str:
        """What is wrong with it; empty when nothing is."""
        if self.kind not in KINDS:
            return f"There is no kind {self.kind}. Use one of {', '.join(KINDS)}."
        if self.kind == WORDS and sum(c.isalnum() for c in self.words) < LEAST_LETTERS:
            return f"A word needs at least {LEAST_LETTERS} letters or digits beside the stars."
        return ""

    @property
    def pattern(self) -> re.Pattern[str]:
        if self.kind != WORDS:
            return re.compile(_PATTERNS[self.kind])
        parts = [re.escape(part) for part in re.split(r"\*+", self.words.strip())]
        return re.compile(r"[\w-]{0,200}".join(parts), re.IGNORECASE)


@dataclass
class Mask:
    """All rules of a team. `found` counts by kind what was taken out."""

    rules: list[Rule]
    found: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._compiled = [
            (rule.kind, _HINTS.get(rule.kind, rule.pattern), rule.pattern, _CHECKS.get(rule.kind))
            for rule in self.rules
        ]

    def text(self, text: str) -> str:
        """The text itself, not a copy, where nothing is taken out."""
        if not text:
            return text
        for kind, hint, pattern, check in self._compiled:
            if hint.search(text):
                text = pattern.sub(lambda match, k=kind, c=check: self._put(match, k, c), text)
        return text

    def _put(self, match: re.Match[str], kind: str, check: Any) -> str:
        if check is not None and not check(match.group()):
            return match.group()
        self.found[kind] += 1
        return "[masked]" if kind == WORDS else f"[{kind}]"

    def value(self, value: Any) -> Any:
        """Any JSON value: its texts, and numbers that a rule takes for what it seeks."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(entry) for entry in value]
        if isinstance(value, int) and not isinstance(value, bool):
            shown = self.text(str(value))
            return value if shown == str(value) else shown
        return value

    def arguments(self, text: str) -> str:
        """JSON text stays JSON."""
        shown = self.text(text)
        if shown == text or text.lstrip()[:1] not in ("{", "["):
            return shown
        try:
            value = json.loads(text)
        except ValueError:
            return shown
        try:
            json.loads(shown)
        except ValueError:
            return json.dumps(self.value(value), ensure_ascii=False)
        return shown

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        return replace(
            trajectory,
            steps=[self._step(step) for step in trajectory.steps],
            answer=self.text(trajectory.answer),
            error=self.text(trajectory.error),
        )

    def _step(self, step: StepRecord) -> StepRecord:
        calls = [self._call(call) for call in step.tool_calls]
        return replace(step, text=self.text(step.text), reasoning=self.text(step.reasoning), tool_calls=calls)

    def _call(self, call: ToolCallRecord) -> ToolCallRecord:
        arguments, result = self.arguments(call.arguments), self.arguments(call.result)
        notes = [self.text(note) for note in call.notes]
        if (arguments, result, notes) == (call.arguments, call.result, call.notes):
            return call
        return replace(call, arguments=arguments, result=result, notes=notes)

    def take_flag(self) -> dict[str, str] | None:
        """What was taken out since the last time, as a flag for the rollout."""
        if not self.found:
            return None
        words = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.found.items()))
        self.found.clear()
        return {"code": "masked", "where": "texts", "message": f"Masked before storing: {words}."}


def mask_of(rules: Iterable[Rule]) -> Mask | None:
    """None where there is nothing to mask, so that nothing is paid for it."""
    usable = [rule for rule in rules if not rule.problem]
    return Mask(usable) if usable else None
