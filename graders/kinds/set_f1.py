"""set_f1: overlap of two sets, such as variants, authorities or file names; order and repetition do not count."""

import unicodedata
from collections import Counter
from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import INPUT, REFERENCE, Config, Field, Kind, Scorer, Workshop, in_words
from graders.kinds.values import f_score, members_in
from graders.templating import as_text
from graders.types import Grade, Sample

MEASURES = {
    "f1": "F1 (both ways)",
    "precision": "precision (what was named is right)",
    "recall": "recall (what is right was named)",
    "jaccard": "shared over all",
}


def compile_set_f1(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    wanted = workshop.template(config["reference"]).value
    separator, key = config.get("separator") or "", config.get("key") or ""
    measure = config.get("measure") or "f1"
    keeps_case = bool(config.get("case_sensitive", False))

    def members(text: str, *, cut_commas: bool = True) -> Counter | None:
        found = members_in(text, separator=separator, key=key, cut_commas=cut_commas)
        if found is None:
            return None
        plain = {unicodedata.normalize("NFC", " ".join(member.split())) for member in found}
        return Counter(plain if keeps_case else {member.casefold() for member in plain})

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        listed = wanted(item, sample)
        reference = None if listed is None else members(text := as_text(listed))
        if reference is None:
            said = "The reference is empty (null)." if listed is None else f"The reference is no list: “{text[:80]}”."
            raise Ungraded("other_error", said)
        holds_commas = any("," in member for member in reference)
        answer = members(text := given(item, sample), cut_commas=not holds_commas)
        if answer is None:
            return Grade(0.0, details=f"The answer is no list that can be read: “{text[:80]}”.")
        missing, extra = reference - answer, answer - reference
        reward = f_score(answer, reference, measure)
        return Grade(reward, details=_said(missing, extra)) if missing or extra else reward

    return score


def _said(missing: Counter, extra: Counter) -> str:
    parts = [("missing", missing), ("too many", extra)]
    return "; ".join(f"{word}: {', '.join(sorted(bag)[:5])[:120]}" for word, bag in parts if bag)


KIND = Kind(
    type="set_f1",
    title="Set",
    about="Overlap of the answer's set with the reference set.",
    fields=(
        INPUT,
        REFERENCE,
        Field("measure", "choice", "Measure", "", default="f1", choices=tuple(MEASURES.items())),
        Field("key", "text", "Key", "When members are objects: the key that names each."),
        Field(
            "separator",
            "text",
            "Separator",
            "Empty: lines and semicolons, else commas unless the reference has some; JSON lists are read as such.",
        ),
        Field("case_sensitive", "flag", "Case counts", "", default=False),
    ),
    compile=compile_set_f1,
    sentence=lambda c: (
        f"{in_words(c.get('input'))} names the set {in_words(c.get('reference'))} ({c.get('measure') or 'f1'})"
    ),
    icon="table",
    is_ours=True,
)
