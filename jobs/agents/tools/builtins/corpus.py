"""Built-in tool: full-text search over documents, ranked by BM25.

Config: `documents` (a list of {id, title, text}), or `corpus` (the id of uploaded ones, which Studio puts into `documents`
before a call), or `item_field` (where the item keeps such a list);
`mode` is search (default) or read, which answers with one whole document by its id; `key` names the argument
(default query or id); `limit` is how many matches are shown, `excerpt` how many characters of each.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jobs.agents.tools.arguments import ArgumentError
from jobs.agents.tools.builtins.paths import as_text, at_path, folded
from jobs.agents.tools.spec import ToolSpec

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words to look for."}},
    "required": ["query"],
}
#: A run of letters and digits; scripts written without spaces count each character as a word.
_WORD = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W_\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+")
_K1, _B = 1.2, 0.75
KEPT_INDEXES = 4
_indexes: dict[str, "Index"] = {}


def config_problems(config: dict[str, Any]) -> list[str]:
    if config.get("mode", "search") not in {"search", "read"}:
        return ["The mode must be search or read."]
    documents = config.get("documents")
    if documents is not None:
        return [] if isinstance(documents, list) and documents else ["The list of documents is empty."]
    return (
        []
        if config.get("item_field") or config.get("corpus")
        else ["Upload documents, or name the item's field that holds them."]
    )


def words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


@dataclass
class Index:
    """Documents ready for search."""

    documents: list[dict[str, str]]
    postings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def search(self, query: str, limit: int) -> list[int]:
        """Places of the best documents, best first; equal scores keep the documents' order."""
        scores: dict[int, float] = {}
        mean = sum(self.lengths) / len(self.lengths) if self.lengths else 1.0
        for word in set(words(query)):
            found = self.postings.get(word, [])
            rarity = math.log(1 + (len(self.documents) - len(found) + 0.5) / (len(found) + 0.5))
            for place, count in found:
                damping = _K1 * (1 - _B + _B * self.lengths[place] / (mean or 1.0))
                scores[place] = scores.get(place, 0.0) + rarity * count * (_K1 + 1) / (count + damping)
        return sorted(scores, key=lambda place: (-scores[place], place))[:limit]


def build_index(documents: Any) -> Index:
    rows = documents if isinstance(documents, list) else []
    index = Index([_document(row, place) for place, row in enumerate(rows)])
    for place, document in enumerate(index.documents):
        counted = Counter(words(f"{document['title']} {document['text']}"))
        index.lengths.append(sum(counted.values()))
        for word, count in counted.items():
            index.postings.setdefault(word, []).append((place, count))
    return index


def _document(row: Any, place: int) -> dict[str, str]:
    if not isinstance(row, dict):
        return {"id": str(place + 1), "title": "", "text": as_text(row)}
    text = row.get("text", row.get("content", ""))
    return {"id": str(row.get("id", place + 1)), "title": str(row.get("title", "")), "text": as_text(text)}


def ready(spec: ToolSpec, item: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    config = spec.config
    if config.get("corpus"):
        index = _kept_index(str(config["corpus"]), config.get("documents"))
    elif "documents" in config:
        index = spec.memo.get("index") or spec.memo.setdefault("index", build_index(config["documents"]))
    else:
        index = build_index(at_path(item, str(config.get("item_field", ""))))
    if config.get("mode") == "read":
        return lambda arguments: _read(index, str(arguments.get(config.get("key", "id"), "")))
    return lambda arguments: _search(index, config, str(arguments.get(config.get("key", "query"), "")))


def _kept_index(corpus: str, documents: Any) -> Index:
    """A corpus never changes, so its index is kept for the specs to come; the one made first makes room."""
    if corpus not in _indexes:
        while len(_indexes) >= KEPT_INDEXES:
            _indexes.pop(next(iter(_indexes)), None)
        _indexes[corpus] = build_index(documents)
    return _indexes[corpus]


def _read(index: Index, wanted: str) -> str:
    for document in index.documents:
        if folded(document["id"]) == folded(wanted):
            return "\n".join(part for part in (document["title"], document["text"]) if part)
    raise ArgumentError(f"Error: there is no document {wanted!r}.")


def _search(index: Index, config: dict[str, Any], query: str) -> str:
    if not words(query):
        raise ArgumentError("Error: the query has no words.")
    places = index.search(query, int(config.get("limit", 5)))
    if not places:
        return "No document matches."
    size = int(config.get("excerpt", 600))
    return "\n\n".join(_excerpt(index.documents[place], query, size) for place in places)


def _excerpt(document: dict[str, str], query: str, size: int) -> str:
    """Id, title and the stretch of text around the first word that was asked for."""
    text = document["text"]
    places = [text.casefold().find(word) for word in words(query)]
    first = min((place for place in places if place >= 0), default=0)
    start = max(0, min(first - size // 3, len(text) - size))
    cut = ("…" if start else "") + text[start : start + size].strip() + ("…" if start + size < len(text) else "")
    return f"[{document['id']}] {document['title']}".rstrip() + f"\n{cut}"
