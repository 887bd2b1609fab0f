"""Which modules user Python may import. Data only; read by the worker and by the check of a source."""

#: Loaded before a worker is forked, so they cost nothing.
_STANDARD = """
abc ast base64 bisect calendar cmath collections collections.abc contextlib copy csv dataclasses datetime _strptime
decimal difflib enum fractions functools graphlib hashlib heapq hmac html html.entities html.parser inspect io itertools
json json.decoder json.encoder linecache math numbers operator pprint random re secrets signal statistics string
stringprep struct textwrap threading time timeit tokenize traceback types typing unicodedata urllib.parse uuid warnings
xml.etree.ElementTree zlib zoneinfo encodings.idna encodings.punycode encodings.utf_8 encodings.ascii encodings.latin_1
encodings.utf_16 encodings.utf_16_le encodings.utf_16_be encodings.utf_32 encodings.cp1252 encodings.raw_unicode_escape
encodings.unicode_escape encodings.utf_8_sig keyword token opcode dis queue array sys os errno codecs locale
logging weakref pathlib fnmatch pickle ipaddress shlex reprlib platform stat gc builtins contextvars typing_extensions
email.utils  marshal symtable posixpath ntpath copyreg sre_compile sre_parse __future__ collections.abc
"""
_NUMERIC = """
numpy numpy.linalg numpy.random numpy.fft
rapidfuzz rapidfuzz.fuzz rapidfuzz.process rapidfuzz.distance rapidfuzz.utils
"""
COMMON: tuple[str, ...] = (*_STANDARD.split(), *_NUMERIC.split())

#: Loaded by a worker before its lock, when the source imports them and they are installed.
_LIBRARIES = """
scipy sympy pandas sklearn rouge_score deepdiff jsonschema pydantic yaml nltk
sqlparse sacrebleu dateutil rdkit skbio ast_grep_py orjson
"""
ON_REQUEST: tuple[str, ...] = tuple(_LIBRARIES.split())

#: Needed by the zygote, useless in a worker: taken away, so that an import says so.
UNOFFERED = ("socket", "_socket", "subprocess", "_posixsubprocess", "select", "selectors", "sandbox_lock")

#: First parts of the names that `import` may find.
ROOTS = frozenset(name.partition(".")[0] for name in COMMON) | frozenset(ON_REQUEST)
