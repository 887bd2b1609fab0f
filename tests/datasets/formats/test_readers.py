"""Readers: rows out, bad lines with their place. Tables of input and output, no database."""

import datetime
import io
import json
import tracemalloc

import pytest

from datasets import readers
from datasets.formats import delimited, json_array
from datasets.formats.base import BadLine, Blank, Cursor, FileRefused, Row

GOOD = b'{"messages": [{"role": "user", "content": "q"}]}'


def events(content: bytes, name: str = "rows.jsonl", cursor: Cursor | None = None) -> list:
    stream = io.BytesIO(content)
    return list(readers.read(stream, readers.facts_of(stream, name), cursor))


def values(content: bytes, name: str = "rows.jsonl") -> list:
    return [event.value for event in events(content, name) if isinstance(event, Row)]


def faults(content: bytes, name: str = "rows.jsonl") -> list[tuple[int, int, str]]:
    return [(event.line, event.column, event.code) for event in events(content, name) if isinstance(event, BadLine)]


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (b"", "a.jsonl", "empty_file"),
        (b" \n\n", "a.jsonl", "empty_file"),
        (b"\xef\xbb\xbf", "a.csv", "empty_file"),
        ('{"a": 1}\n'.encode("utf-16"), "a.jsonl", "utf16"),
        ('{"a": 1}\n'.encode("utf-16-be"), "a.jsonl", "utf16"),
        ("a,b\n1,2\n".encode("utf-16"), "a.csv", "utf16"),
        ('{"a": 1}\n'.encode("utf-32"), "a.jsonl", "utf32"),
        (b"\x1f\x8b\x08\x00", "a.jsonl", "gzip"),
        (b"PK\x03\x04rest", "a.xlsx", "zip"),
        (b"%PDF-1.7", "a.jsonl", "pdf"),
        (b"<!DOCTYPE html><html>", "a.jsonl", "web_page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a.csv", "git_lfs_pointer"),
        (b'{\n "a": 1,\n "b": [{"x": 1}]\n}\n', "a.json", "one_object"),
        (b'{"rows": [{"x": 1}]}', "a.json", "one_object"),
        (b"BZh91AY", "a.jsonl", "bzip2"),
        (b"\x89PNG\r\n", "a.jsonl", "image"),
        (b"rows.jsonl".ljust(257, b"\x00") + b"ustar\x00", "a.jsonl", "tar"),
        (bytes(range(32)) * 20, "a.jsonl", "binary"),
        (b"\x00" * 500, "a.jsonl", "binary"),
    ],
)
def test_what_a_file_really_is_gets_named(content, name, code):
    with pytest.raises(FileRefused) as refused:
        events(content, name)
    assert refused.value.code == code
    assert refused.value.fix


@pytest.mark.parametrize(
    ("line", "column", "code"),
    [
        (b'{"a": 1', 8, "invalid_json"),
        (b'{"a": 1,}', 9, "invalid_json"),
        (b"{'a': 1}", 2, "invalid_json"),
        (b'{"a": 1} {"b": 2}', 10, "invalid_json"),
        (b'{"a": "x\ty"}', 9, "invalid_json"),
        (b'{"a": 01}', 8, "invalid_json"),
        (b"[1, 2]", 1, "not_an_object"),
        (b'"text"', 1, "not_an_object"),
        (b"null", 1, "not_an_object"),
        (b"12", 1, "not_an_object"),
        (b'{"a": NaN}', 7, "nan_literal"),
        (b'{"text": "NaN", "a": -Infinity}', 22, "nan_literal"),
        (b'{"a": 1e999}', 7, "number_too_large"),
        (b'{"a": ' + b"9" * 5000 + b"}", 7, "number_too_long"),
        (b'\xef\xbb\xbf{"a": 1}', 1, "stray_mark"),
        (b'{"a": 1},', 9, "comma_at_end"),
        (b'{"a": "caf\xe9"}', 11, "not_utf8"),
        (b'{"a": "\xed\xa0\x80"}', 8, "not_utf8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 206, "too_deep"),
        (b'{"a": ' + b"[" * 240 + b"]" * 240 + b"}", 206, "too_deep"),
        (b'{"a": ' + b"[" * 900 + b"12345678901234567890" + b"]" * 900 + b"}", 206, "too_deep"),
    ],
)
def test_bad_line_is_named_and_its_neighbours_kept(line, column, code):
    content = GOOD + b"\n" + line + b"\n" + GOOD + b"\n"
    assert faults(content) == [(2, column, code)]
    assert len(values(content)) == 2


def test_bad_byte_is_counted_in_the_file():
    bad = next(event for event in events(GOOD + b'\n{"a": "caf\xe9"}\n') if isinstance(event, BadLine))
    assert f"byte {len(GOOD) + 1 + 10} of the file" in bad.message
    assert "Windows-1252" in bad.message
    assert bad.text == '{"a": "caf\\xe9"}'


@pytest.mark.parametrize(
    ("line", "note"),
    [(b'{"a": 1, "a": 2}', "doubled_key"), (b'{"x": {"k": 1, "k": 1}}', "doubled_key"),
     (b'{"a": "\\u0000"}', "nul_character"), (b'{"a": "\\ud83d"}', "lone_surrogate"), (b'{"\\ude00": 1}', "lone_surrogate"),
     (b'{"item": {"a": 1}}', "eval_items")],
)  # fmt: skip
def test_oddities_are_noted(line, note):
    assert note in events(line + b"\n")[0].notes


@pytest.mark.parametrize("line", [b'{"a": "\\u0022quoted\\u0022"}', b'{"a": "\\ud83d\\ude00"}', b'{"a": "\\\\ud83d"}'])
def test_ordinary_escapes_are_not(line):
    assert events(line + b"\n")[0].notes == ()


def test_same_values_have_the_same_canonical_bytes_however_written():
    one, two = events(b'{"b":1,"a":[1.0,"\xc3\xa9"]}\n{ "a" : [1.0, "\\u00e9"],  "b" : 1 }\n')
    assert one.canonical == two.canonical
    three, four = events(b'{"a":1234567890123456789012}\n{"a": 1234567890123456789013}\n')
    assert three.canonical != four.canonical


def test_last_line_may_lack_its_newline_and_lines_may_end_in_either():
    assert len(values(GOOD + b"\r\n" + GOOD + b"\n" + GOOD)) == 3


def test_jsonl_goes_on_from_its_cursor():
    content = GOOD + b"\n\n" + GOOD + b"\n{oops\n"
    first = events(content)
    cursor = Cursor(offset=first[1].end, line=first[1].line, records=2)
    assert events(content, cursor=cursor) == first[2:]


def test_too_long_line_is_passed_over(monkeypatch):
    from datasets.formats import jsonl

    monkeypatch.setattr(jsonl, "MAX_ROW_BYTES", 100)
    content = GOOD + b'\n{"a": "' + b"x" * 500 + b'"}\n' + GOOD + b"\n"
    assert faults(content) == [(2, 100, "line_too_long")]
    assert len(values(content)) == 2


ARRAY = b'[\n {"a": "x, ]}[{", "b": [1, {"c": "\\""}]},\n\n {"a": 2}\n]\n'


def test_array_is_cut_by_its_brackets():
    rows = [event for event in events(ARRAY, "a.json") if isinstance(event, Row)]
    assert [row.value for row in rows] == [{"a": "x, ]}[{", "b": [1, {"c": '"'}]}, {"a": 2}]
    assert [row.line for row in rows] == [2, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 64])
def test_array_does_not_depend_on_how_it_is_read(monkeypatch, size):
    whole = [event.value for event in events(ARRAY, "a.json")]
    monkeypatch.setattr(json_array, "_CHUNK", size)
    assert [event.value for event in events(ARRAY, "a.json")] == whole


@pytest.mark.parametrize(
    ("content", "rows", "expected"),
    [
        (b'[{"a": 1}, {"a": }, {"a": 3}]', 2, [(1, 18, "invalid_json")]),
        (b'[\n{"a": 1},\n{"a": 1 "b": 2},\n{"a": 3}\n]', 2, [(3, 9, "invalid_json")]),
        (b'[{"a": 1}, 7]', 1, [(1, 12, "not_an_object")]),
        (b'[{"a": 1}, {"a": 2}', 2, [(1, 1, "array_not_closed")]),
        (b'[{"a": 1}, {"a": "cut', 1, [(1, 18, "invalid_json"), (1, 1, "array_not_closed")]),
        (b'[{"a": 1}] [{"a": 2}]', 1, [(1, 1, "text_after_end")]),
        (b'[{"a": NaN}]', 0, [(1, 8, "nan_literal")]),
        (b"[]", 0, []),
    ],
)
def test_array_with_faults(content, rows, expected):
    found = faults(content, "a.json")
    assert len(values(content, "a.json")) == rows
    assert [code for _, _, code in found] == [code for _, _, code in expected]
    assert found[0][:2] == expected[0][:2] if expected else not found


def test_objects_over_several_lines_are_rows():
    content = json.dumps({"a": 1, "b": {"c": 2}}, indent=1).encode() + b"\n" + json.dumps({"a": 2}, indent=1).encode()
    assert values(content) == [{"a": 1, "b": {"c": 2}}, {"a": 2}]


def test_array_values_keep_every_digit():
    row = events(b'[\n{"a": 12345678901234567890123,\n "b": 1.10}]', "a.json")[0]
    assert row.raw == '{"a":12345678901234567890123,"b":1.10}'


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (b"a,b\n1,NA\n", "x.csv", [{"a": "1", "b": "NA"}]),
        (b"\xef\xbb\xbfa;b\r\n1;2\r\n", "x.csv", [{"a": "1", "b": "2"}]),
        (b"a\tb\n1,5\t2\n", "x.tsv", [{"a": "1,5", "b": "2"}]),
        (b'a,b\n"x\ny","say ""hi"""\n', "x.csv", [{"a": "x\ny", "b": 'say "hi"'}]),
        (b"a\nonly\n", "x.csv", [{"a": "only"}]),
        (b"a,b\n007,1e5\n", "x.csv", [{"a": "007", "b": "1e5"}]),
        (b"a,\n1,2\n", "x.csv", [{"a": "1", "column 2": "2"}]),
        (b"q,a\nwhat,x\n", "x.txt", [{"q": "what", "a": "x"}]),
    ],
)
def test_tables(content, name, expected):
    assert values(content, name) == expected


def test_table_lines_are_those_of_the_file():
    found = events(b'a,b\n"x\ny",1\n\n1,2,3\n\xff,2\n4,5\n', "x.csv")
    assert [(type(event), event.line) for event in found] == [
        (Row, 2),
        (Blank, 4),
        (BadLine, 5),
        (BadLine, 6),
        (Row, 7),
    ]
    assert [event.code for event in found if isinstance(event, BadLine)] == ["cell_count", "not_utf8"]


def test_table_with_one_broken_quote_keeps_the_rest():
    found = faults(b'a,b\n1,2\n"x"y,2\n3,4\n', "x.csv")
    assert found == [(3, 1, "bad_csv")]
    assert len(values(b'a,b\n1,2\n"x"y,2\n3,4\n', "x.csv")) == 2


def test_table_with_two_columns_of_one_name_is_refused():
    with pytest.raises(FileRefused, match="Two columns are named 'a'"):
        events(b"a,a\n1,2\n", "x.csv")


def test_messages_in_a_cell_are_messages():
    cell = json.dumps([{"role": "user", "content": "q"}]).replace('"', '""')
    assert values(f'messages,n\n"{cell}",1\n'.encode(), "x.csv") == [
        {"messages": [{"role": "user", "content": "q"}], "n": "1"}
    ]
    assert faults(b'messages,n\n"[{",1\n', "x.csv") == [(2, 1, "invalid_json")]


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileRefused) as refused:
        events(b"PAR1....", "x.parquet")
    assert refused.value.code == "parquet_missing"
    assert "pip install" in refused.value.fix


def test_parquet_of_numbers_and_dates():
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {"n": [1970670598291982290, None], "x": [0.5, float("nan")], "d": [datetime.date(2026, 1, 2), None]}
    )
    target = io.BytesIO()
    parquet.write_table(table, target)
    assert values(target.getvalue(), "x.parquet") == [{"n": 1970670598291982290, "x": 0.5, "d": "2026-01-02"}]
    assert faults(target.getvalue(), "x.parquet") == [(2, 2, "nan_literal")]


def test_cut_parquet_is_refused():
    pytest.importorskip("pyarrow")
    with pytest.raises(FileRefused) as refused:
        events(b"PAR1 cut", "x.parquet")
    assert refused.value.code == "bad_parquet"


def test_bare_carriage_returns_of_old_macs_are_line_ends():
    assert values(b'{"a": 1}\r\r{"a": 2}\r') == [{"a": 1}, {"a": 2}]
    assert values(b"a,b\r1,2\r3,4", "a.csv") == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_objects_over_several_lines_are_rows_whatever_the_name():
    spread = b'{\n "a": 1\n}\n{\n "a": 2\n}\n'
    assert values(spread, "a.json") == values(spread, "a.jsonl") == [{"a": 1}, {"a": 2}]
    assert values(b'{\n "a": "}",\n "b": [1]\n}', "a.json") == [{"a": "}", "b": [1]}]


def test_quote_that_is_never_closed_costs_its_own_line_alone():
    content = b'a,b\n1,2\n"open,3\n4,5\n"x\ny",6\n'
    assert faults(content, "a.csv") == [(3, 1, "bad_csv")]
    assert values(content, "a.csv") == [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}, {"a": "x\ny", "b": "6"}]
    bad = next(event for event in events(content, "a.csv") if isinstance(event, BadLine))
    assert bad.text == '"open,3'
    whole = events(content, "a.csv")
    assert events(content, "a.csv", Cursor(records=2)) == whole[2:]


def test_two_columns_of_one_name_are_refused():
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table([["x"], ["y"]], names=["q", "q"]), sink)
    for content, name, place in ((b"a,q,q\n1,2,3\n", "a.csv", 3), (sink.getvalue(), "a.parquet", 1)):
        with pytest.raises(FileRefused) as refused:
            events(content, name)
        assert (refused.value.code, refused.value.column) == ("doubled_column", place)


def test_separator_line_of_a_spreadsheet_is_no_header():
    assert values(b"sep=;\r\na;b\r\n1;2\r\n", "a.csv") == [{"a": "1", "b": "2"}]


OPEN_QUOTES = b"a,b\n" + b'5","y\n' * 2000


def test_quotes_that_all_stay_open_do_not_read_the_file_once_for_each(monkeypatch):
    monkeypatch.setattr(delimited, "REREAD_FREE", 256 * 1024)
    reads, plain = 0, delimited._Lines.__next__

    def counted(self):
        nonlocal reads
        reads += 1
        assert reads < 200_000, "2,000 lines were read two million times"
        return plain(self)

    monkeypatch.setattr(delimited._Lines, "__next__", counted)
    found = events(OPEN_QUOTES, "a.csv")
    assert [event.line for event in found] == list(range(2, 2 + len(found)))
    assert {event.code for event in found} == {"bad_csv"}
    assert f"The {2000 - len(found):,} lines behind it are left out too" in found[-1].message
    assert found[-1].text.startswith('5","y\n5","y\n')
    assert events(OPEN_QUOTES, "a.csv", Cursor(records=10)) == found[10:]


def test_cell_of_many_lines_is_read_whole_and_an_open_quote_holds_its_bytes_alone(monkeypatch):
    cell = "".join(f'line {number}, with "words" in it\n' for number in range(3000))
    assert values(b'a,b\n1,"' + cell.replace('"', '""').encode() + b'"\n2,x\n', "a.csv") == [
        {"a": "1", "b": cell},
        {"a": "2", "b": "x"},
    ]
    monkeypatch.setattr(delimited, "MAX_ROW_BYTES", 64 * 1024)
    monkeypatch.setattr(delimited, "REREAD_FREE", 0)
    monkeypatch.setattr(delimited, "REREAD_TIMES", 2)
    content = io.BytesIO(b"a,b\n" + b'5","y\n' * 20_000)
    reader = readers.read(content, readers.facts_of(content, "a.csv"), Cursor())
    tracemalloc.start()
    found = list(reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {event.code for event in found} == {"line_too_long", "bad_csv"}
    assert peak < 20 * delimited.MAX_ROW_BYTES, "a text for each short line needs twice as much"


def test_row_that_is_too_long_for_memory_is_refused_and_the_next_ones_read(monkeypatch):
    monkeypatch.setattr(delimited, "MAX_ROW_BYTES", 100)
    content = b'a,b\n1,"x\n' + b"2,fine\n" * 20 + b"3," + "é".encode() * 90 + b"\n4,5\n"
    assert faults(content, "a.csv") == [(2, 1, "line_too_long"), (23, 1, "line_too_long")]
    assert len(values(content, "a.csv")) == 21
    assert values(content, "a.csv")[-1] == {"a": "4", "b": "5"}
