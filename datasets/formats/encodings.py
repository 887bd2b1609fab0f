"""Encodings other than UTF-8: which ones a text may be in, and reading it as UTF-8. Portable.

Nothing is changed by a guess: a file is read in another encoding only when a person says so.
"""

import codecs
import io
import re
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from datasets.formats.base import MAX_ROW_BYTES, pass_over

ENCODINGS = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16 without a mark",
    "utf-16-be": "UTF-16 without a mark, big end first",
    "utf-32": "UTF-32",
    "cp949": "EUC-KR (Korean)",  # before Chinese: its bytes are usual Chinese ones too, but not the other way round
    "gb18030": "GB18030 or GBK (Chinese)",
    "big5": "Big5 (Chinese)",
    "cp932": "Shift JIS (Japanese)",
    "euc_jp": "EUC-JP (Japanese)",
    "cp1252": "Windows-1252 or Latin-1 (Western Europe)",
    "cp1250": "Windows-1250 (Central Europe)",
    "cp1251": "Windows-1251 (Cyrillic)",
    "koi8_r": "KOI8-R (Cyrillic)",
}
WIDE = {"utf-16", "utf-16-le", "utf-16-be", "utf-32"}
_LIKELY = 0.6
_WESTERN = set("äöüßÄÖÜàâáãåæçèéêëìíîïñòóôõøœùúûýÿÀÂÁÅÇÈÉÊÍÑÓÔØÚ€£§°«»¿¡·…“”‘’„‚–—•×½¼²³")
_CENTRAL = set("ąćęłńóśźżĄĆĘŁŃÓŚŹŻáčďéěíňřšťúůýžÁČŠŽőűöüÖÜäĺľŕôăâîșțşţđ€„“”‘’–—…°§")
_CHUNK = 64 * 1024
_STRANGE = re.compile(b"[\x80-\xff]")


class Candidate(NamedTuple):
    """An encoding that the text can be read in, how likely it is (0 to 1), and lines as they would read."""

    codec: str
    label: str
    likelihood: float
    lines: list[str]


def candidates(sample: bytes, is_wide: bool = False) -> list[Candidate]:
    """The encodings in which all of the sample can be read, the likeliest first. Those that no language would give are
    left out, unless nothing else is."""
    found, seen = [], set()
    for codec, label in ENCODINGS.items():
        if (codec in WIDE) != is_wide:
            continue
        try:  # not final: the sample may end within a sign
            text = codecs.getincrementaldecoder(codec)().decode(sample).removeprefix("\ufeff")
        except UnicodeError:
            continue
        if text not in seen:
            found.append(Candidate(codec, label, likelihood(codec, text), _strange_lines(text)))
        seen.add(text)
    found.sort(key=lambda each: -each.likelihood)
    return [each for each in found if each.likelihood >= (0.8 if is_wide else 0.2)] or found[:3]


def guess(line: bytes) -> str:
    """The name of the likeliest encoding of a line that is not UTF-8, or the empty text when none is likely. Looks at its
    beginning only, because it is asked for every bad line."""
    best = next(iter(candidates(_beginning(line))), None)
    return best.label if best and best.likelihood >= _LIKELY else ""


def _beginning(line: bytes, size: int = 400) -> bytes:
    """From the first strange byte on: there begins a sign, in every encoding that has ASCII in it."""
    found = _STRANGE.search(line)
    first = found.start() if found else 0
    return line[first : first + size]


def _strange_lines(text: str, shown: int = 3) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ([line for line in lines if not line.isascii()] or lines)[:shown]


def likelihood(codec: str, text: str) -> float:
    """How many of the characters beyond ASCII are such as texts in this encoding are made of. Rough, and only an order: a
    person sees the lines and decides."""
    if codec in WIDE:
        plain = sum(char.isprintable() or char in "\r\n\t" for char in text)
        return plain / len(text) if text and any(mark in text for mark in '{",;\t') else 0.0
    strange = [char for char in text if ord(char) > 127]
    if not strange:
        return 0.0
    return sum(map(_TYPICAL[codec], strange)) / len(strange) * _shape(codec, text, strange)


def _shape(codec: str, text: str, strange: list[str]) -> float:
    """What speaks against an encoding although each character might belong."""
    if codec in ("cp932", "euc_jp") and sum("\u3040" <= char <= "\u30ff" for char in strange) < 0.15 * len(strange):
        return 0.3  # Japanese without kana
    if codec in ("cp1252", "cp1250") and re.search("[^\x00-\x7f]{5}", text):
        return 0.3  # accents do not come in rows
    if codec in ("cp949", "gb18030", "big5"):
        joined = len(re.findall("[a-z][^\x00-\x7f]|[^\x00-\x7f][a-z]", text))
        return 0.3 if joined * 4 > len(strange) else 1.0  # letters grown together with signs
    if codec in ("cp1251", "koi8_r") and re.search("[a-z][\u0400-\u045f]|[\u0400-\u045f][a-z]", text):
        return 0.3  # one word in two alphabets
    if codec in ("cp1251", "koi8_r"):
        return (
            1.0 if sum(char.islower() for char in strange) * 2 > len(strange) else 0.4
        )  # each has the other's capitals
    return 1.0


def _is_wide_sign(char: str) -> bool:
    return "\u3000" <= char <= "\u303f" or "\uff01" <= char <= "\uff5e" or char in "“”‘’…—·"


def _common_in(codec: str, first: int, last: int) -> Callable[[str], float]:
    """1 for the signs that the standard lists as the usual ones, by their first byte; half for the rarer ones."""

    def weight(char: str) -> float:
        if _is_wide_sign(char):
            return 1.0
        code = char.encode(codec, "ignore")
        return (1.0 if first <= code[0] <= last else 0.4) if len(code) == 2 else 0.1

    return weight


def _japanese(char: str) -> float:
    return float("\u3040" <= char <= "\u30ff" or "\u4e00" <= char <= "\u9fff" or _is_wide_sign(char))


_TYPICAL: dict[str, Callable[[str], float]] = {
    "gb18030": _common_in("gb2312", 0xB0, 0xD7),
    "big5": _common_in("big5", 0xA4, 0xC6),
    "cp932": _japanese,
    "euc_jp": _japanese,
    "cp949": _common_in("euc_kr", 0xB0, 0xC8),
    "cp1252": lambda char: float(char in _WESTERN),
    "cp1250": lambda char: 0.95 * (char in _CENTRAL),
    "cp1251": lambda char: float("\u0400" <= char <= "\u045f" or char in "«»„“”–—№…"),
    "koi8_r": lambda char: float("\u0400" <= char <= "\u045f"),
}


def foreign_sample(stream: BinaryIO, lines: int = 5, within: int = 64 * 1024 * 1024) -> bytes:
    """The first lines of the file that are not UTF-8. Of one that is longer than 64 kB so much of it, and nothing after it,
    because its end is within a sign perhaps. Lines that are too long for a row are passed over."""
    stream.seek(0)
    kept, read = [], 0
    while len(kept) < lines and read < within and (line := stream.readline(MAX_ROW_BYTES + 1)):
        read += len(line)
        if len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            read += pass_over(stream)
        elif not _is_utf8(line):
            if len(line) > _CHUNK:
                kept.append(_beginning(line, _CHUNK))
                break
            kept.append(line)
    return b"".join(kept)


def _is_utf8(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


class Recoded(io.RawIOBase):
    """A file in another encoding, or with the bare CR of old Macs at its line ends, read as UTF-8 with LF.

    Bytes that the encoding does not have stay bad bytes, so their line is reported. Seeking back starts over, so it is
    dear; that happens only when an import goes on after a kill.
    """

    def __init__(self, stream: BinaryIO, encoding: str = "utf-8", *, has_bare_cr: bool = False) -> None:
        super().__init__()
        self.stream, self.encoding, self.has_bare_cr = stream, encoding, has_bare_cr
        self._start()

    def _start(self) -> None:
        self.stream.seek(0)
        self.decoder = codecs.getincrementaldecoder(self.encoding)(errors="stay_bad")
        self.ready, self.place, self.is_done = b"", 0, False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self.place
        if offset < self.place:
            self._start()
        while self.place < offset and (passed := self.read(min(_CHUNK, offset - self.place))):
            del passed
        return self.place

    def tell(self) -> int:
        return self.place

    def readinto(self, buffer) -> int:
        while not self.ready and not self.is_done:
            piece = self.stream.read(_CHUNK)
            self.is_done = not piece
            text = self.decoder.decode(piece, final=self.is_done)
            if self.has_bare_cr:
                text = text.replace("\r", "\n")
            self.ready = text.encode("utf-8", "surrogateescape")
        piece = self.ready[: len(buffer)]
        buffer[: len(piece)] = piece
        self.ready = self.ready[len(piece) :]
        self.place += len(piece)
        return len(piece)


def _stay_bad(exc: UnicodeError) -> tuple[str, int]:
    if not isinstance(exc, UnicodeDecodeError):
        raise exc
    return "".join(chr(0xDC80 | byte & 0x7F) for byte in exc.object[exc.start : exc.end]), exc.end


codecs.register_error("stay_bad", _stay_bad)
