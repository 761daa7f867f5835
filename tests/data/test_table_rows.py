from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data import (
    Document,
    Piped,
    ReadCounts,
    documents_from,
    pieces_of,
    read_pieces,
    survey,
    table_rows,
)
from pellucid.data.table_rows import read_table
from pellucid.errors import LibraryError, TextError

TEXTS = ["Grüße, 世界 🙂", 'with "quotes", commas\tand tabs', "two\nlines", "последний"]


def jsonl(texts: list[Any], field: str = "text") -> bytes:
    return "".join(json.dumps({"id": 1, field: text}) + "\n" for text in texts).encode()


def separated(texts: list[str], delimiter: str) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerows([("id", "text"), *enumerate(texts)])
    return buffer.getvalue().encode()


def written(folder: Path, name: str, content: bytes) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return str(file)


def texts_in(*paths: str, field: str | None = "text") -> list[str]:
    return [document.text for document in documents_from(paths, field)]


def refusal(path: str, field: str | None = "text") -> str:
    with pytest.raises(TextError) as refused:
        documents_from([path], field)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", jsonl(TEXTS)),
        ("a.JSONL", b"\xef\xbb\xbf" + jsonl(TEXTS).replace(b"\n", b"\r\n\r\n")),
        ("a.csv", separated(TEXTS, ",")),
        ("a.tsv", b"\xef\xbb\xbf" + separated(TEXTS, "\t")),
        ("a.jsonl.gz", gzip.compress(jsonl(TEXTS))),
        ("a.csv.gz", gzip.compress(separated(TEXTS, ","))),
    ],
)
def test_each_row_of_a_table_becomes_a_document(tmp_path: Path, name: str, content: bytes) -> None:
    documents = documents_from([written(tmp_path, name, content)], "text")
    assert [document.text for document in documents] == TEXTS
    assert len({document.name for document in documents}) == len(TEXTS)


@settings(max_examples=40)
@given(
    texts=st.lists(
        st.text(
            st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), min_size=1
        ).filter(str.strip),
        min_size=1,
        max_size=6,
    )
)
@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize("only", ["text", None])
def test_no_text_is_changed_by_its_table(ending: str, only: str | None, texts: list[str]) -> None:
    content = jsonl(texts) if ending == ".jsonl" else separated(texts, ",")
    rows = table_rows.read_table("t", ending, io.BytesIO(content), field=only)
    assert [row.values["text"] for row in rows] == texts


def test_parquet_column_is_read_and_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = TEXTS * 200
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"id": range(len(texts)), "text": texts}), path)
    assert texts_in(str(path)) == texts
    assert "has no field 'body'; it has: 'id', 'text'" in refusal(str(path), "body")
    assert "row 1: the field 'id' is not a text but 0" in refusal(str(path), "id")
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a whole Parquet file" in refusal(str(path))
    latin = arrow.array([b"caf\xe9"]).buffers()
    column = arrow.StringArray.from_buffers(1, latin[1], latin[2])
    parquet.write_table(arrow.table({"text": column}), path)
    assert "a text after row 0 is not UTF-8" in refusal(str(path))


def test_zstd_is_read_frame_by_frame_and_cut_short_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.compress(jsonl(TEXTS))
    assert texts_in(written(tmp_path, "a.jsonl.zst", frame + frame)) == TEXTS * 2
    message = refusal(written(tmp_path, "a.jsonl.zst", frame + frame[:-9]))
    assert "a.jsonl.zst is incomplete after row" in message
    assert "is damaged, or its compression does not match" in refusal(
        written(tmp_path, "b.txt.zst", b"text"), None
    )


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        ("pyarrow.parquet", "a.parquet", "pellucid[parquet]"),
        ("zstandard", "a.txt.zst", "pellucid[zstd]"),
    ],
)
def test_missing_library_is_refused_with_the_extra_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, advice: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LibraryError) as refused:
        documents_from([written(tmp_path, name, b"?")], "text")
    assert f'pip install -U "{advice}"' in str(refused.value)


BROKEN = {
    "missing field": (b'{"text": "a"}\n{"body": "b"}\n', "row 2: has no field 'text'", "'body'"),
    "not JSON": (b'{"text": "a"}\n{"text": "b\n', "row 2: is not valid JSON", "mend"),
    "not an object": (b'["text"]\n', "row 1: expected a JSON object", "'text'"),
    "not a text": (b'{"text": ["a"]}\n', "row 1: the field 'text' is not a text but ['a']", ""),
    "latin": (b'{"text": "a"}\n\n{"text": "\xe9"}\n', "row 3 is not UTF-8: byte 0xe9", "iconv"),
    "NUL byte": (b'{"text": "a\0"}\n', "row 1 is not a text: it has a NUL byte", ""),
    "NUL escaped": (b'{"text": "a\\u0000"}\n', "row 1 is not a text: it has a NUL at", ""),
    "surrogate": (b'{"text": "a\\ud800"}\n', "row 1: the text has half of a surrogate", ""),
    "no text": (b'{"text": " "}\n{"text": null}\n', "is empty: no row has a text", ""),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_row_is_refused_with_file_and_number(tmp_path: Path, case: str) -> None:
    content, *expected = BROKEN[case]
    path = written(tmp_path, "data.jsonl", content)
    message = refusal(path)
    assert message.startswith(path)
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"id,text\n1,a\n2,b,c\n", "row 2 (line 3): has 3 values, but the first line names 2"),
        (b'id,text\n1,"a\nb"\n2,"c\n', "line 4: cannot be read"),
        (b"id,body\n1,a\n", "names no field 'text'; it has: 'id', 'body'"),
        (b"text,text\na,b\n", "names more than one field 'text'"),
        (b"id,text\n1,\xe9\n", "is not UTF-8"),
    ],
)
def test_broken_csv_is_refused_with_row_and_line(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    assert expected in refusal(written(tmp_path, "data.csv", content))


def test_enormous_row_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "LONGEST_ROW", 100)
    path = written(tmp_path, "a.jsonl", jsonl(["a", "b" * 200, "c"]))
    assert "row 2: is longer than 100 bytes" in refusal(path)


def test_archive_cut_short_is_refused_with_the_last_whole_row(tmp_path: Path) -> None:
    archive = gzip.compress(jsonl([f"text number {index}" for index in range(5000)]))
    message = refusal(written(tmp_path, "a.jsonl.gz", archive[: len(archive) // 2]))
    assert "a.jsonl.gz is incomplete after row" in message
    cut = written(tmp_path, "a.txt.gz", archive[:-4])
    assert "a.txt.gz is incomplete" in refusal(cut, None)
    assert "is damaged, or its compression does not match" in refusal(
        written(tmp_path, "b.txt.gz", b"text"), None
    )


def test_table_without_a_field_and_field_without_a_table_are_refused(tmp_path: Path) -> None:
    assert "is a table: choose the field" in refusal(written(tmp_path, "a.csv", b"a,b\n"), None)
    assert "none of the files is a table" in refusal(written(tmp_path, "a.txt", b"text"))


def test_utf16_is_refused_by_its_name(tmp_path: Path) -> None:
    assert "UTF-16" in refusal(written(tmp_path, "a.txt", "text".encode("utf-16")), None)
    assert "iconv -f UTF-32" in refusal(written(tmp_path, "b.txt", "text".encode("utf-32")), None)


def test_pattern_finds_files_at_any_depth_in_the_order_of_paths(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.jsonl", "a/deep/c.jsonl", "a/no.txt"):
        written(tmp_path, name, jsonl([name]))
    assert texts_in(f"{tmp_path}/**/*.jsonl") == ["a/deep/c.jsonl", "a/z.jsonl", "b.jsonl"]
    assert "no file matches" in refusal(f"{tmp_path}/*.csv")


def test_name_with_a_bracket_is_a_file_where_there_is_one(tmp_path: Path) -> None:
    assert texts_in(written(tmp_path, "a[1].txt", b"text"), field=None) == ["text"]


def test_folder_with_a_field_gives_texts_and_tables_and_counts_the_rest(tmp_path: Path) -> None:
    for name in ("a.txt", "b.md.gz", "c.jsonl", "d.py", "e.json"):
        content = jsonl([name, "", None]) if name == "c.jsonl" else name.encode()
        written(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    tally = ReadCounts()
    read = list(read_pieces([str(tmp_path)], "text", tally, Piped()))
    assert [piece.text for piece in read] == ["a.txt", "b.md.gz", "c.jsonl"]
    assert tally == ReadCounts(files=3, tables=1, rows=3, empty_rows=2, other_files=2)


def test_standard_input_with_a_field_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(jsonl(TEXTS, "body"))))
    assert texts_in("-", field="body") == TEXTS


@pytest.mark.parametrize("drop", [True, False])
def test_exact_duplicates_are_counted_and_dropped_if_asked(drop: bool) -> None:
    tally = ReadCounts()
    texts = ["a", "é", "a ", "é", "a", "a"]
    documents = (Document(str(index), text) for index, text in enumerate(texts))
    measured = survey(pieces_of(documents), tally, drop_duplicates=drop)
    used_texts = [text for text, used in zip(texts, measured.used, strict=True) if used]
    assert used_texts == (["a", "é", "a "] if drop else texts)
    assert (tally.duplicates, tally.duplicate_bytes) == (3, 4)


NESTED = [
    {"id": 1, "message": {"text": text, "n": 2}, "a.b": "x", "a": {"b": "y"}} for text in TEXTS
]


def in_json(rows: Any, **how: Any) -> bytes:
    return json.dumps(rows, ensure_ascii=False, **how).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", in_json(NESTED)),
        ("a.json", in_json(NESTED, indent=2)),
        ("a.json", b"\xef\xbb\xbf\n" + b"\n".join(in_json(row) for row in NESTED) + b"\n"),
        ("a.json", b"\n\n".join(in_json(row, indent=1) for row in NESTED)),
        ("a.json.gz", gzip.compress(in_json(NESTED))),
        ("a.ndjson", b"\n".join(in_json(row) for row in NESTED)),
    ],
)
@pytest.mark.parametrize("block", [1, 7, 2**20])
def test_json_is_read_as_a_list_or_as_lines_with_paths_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, block: int
) -> None:
    monkeypatch.setattr("pellucid.data.decode_text._BLOCK", block)
    path = written(tmp_path, name, content)
    assert texts_in(path, field="message.text") == TEXTS
    assert texts_in(path, field="a.b") == ["x"] * len(TEXTS)
    message = refusal(path, "message.body")
    assert (
        "row 1: has no field 'message.body'; it has: 'id', 'message.text', 'message.n'" in message
    )


BROKEN_JSON = {
    "cut short": (b'[{"text": "a"}, {"text": "b', "row 2: is not valid JSON (Unterminated"),
    "no end": (b'[{"text": "a"}', "row 2: is not valid JSON (expected , or ] there)"),
    "two lists": (b'[{"text": "a"}] []', "row 2: is not valid JSON (there is text after the en"),
    "early error": (
        b'[{"text": x}, ' + b'{"text": "b"}, ' * 99 + b"1]",
        "row 1: is not valid JSON",
    ),
    "deep": (b"[" * 100_000, "row 1: is not valid JSON"),
    "texts": (b'["a"]', "row 1: expected a JSON object with the field 'text'"),
    "number": (b"12", "row 1: expected a JSON object"),
    "latin": (b'[{"text": "\xe9"}]', "is not UTF-8: byte 0xe9 at offset 11"),
    "NUL byte": (b'[{"text": "a\0"}]', "has a NUL byte at offset 12"),
    "empty": (b" ", "is empty: no row has a text"),
    "empty list": (b"[ ]", "is empty: no row has a text"),
}


@pytest.mark.parametrize("case", BROKEN_JSON)
def test_broken_json_is_refused_with_file_and_row(tmp_path: Path, case: str) -> None:
    content, expected = BROKEN_JSON[case]
    path = written(tmp_path, "a.json", content)
    message = refusal(path)
    assert message.startswith(path)
    assert expected in message


def test_enormous_json_row_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "LONGEST_ROW", 100)
    monkeypatch.setattr("pellucid.data.decode_text._BLOCK", 16)
    path = written(tmp_path, "a.json", in_json([{"text": "a"}, {"text": "b" * 10_000}]))
    assert "row 2: is not valid JSON (more than 100 characters)" in refusal(path)


def test_parquet_field_in_a_struct_is_found_by_its_path(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"message": {"text": text}} for text in TEXTS] + [{"message": None}]
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    assert texts_in(str(path), field="message.text") == TEXTS
    assert "has no field 'message.body'" in refusal(str(path), "message.body")


@pytest.mark.parametrize(("ending", "between"), [(".csv", ","), (".tsv", "\t")])
def test_a_row_of_a_chosen_field_holds_that_field_alone(ending: str, between: str) -> None:
    lines = (("a", "text"), ("1", "one"), ("2", "two"))
    content = "\n".join(between.join(values) for values in lines).encode()
    rows = list(read_table("t", ending, io.BytesIO(content), field="text"))
    assert [row.values for row in rows] == [{"text": "one"}, {"text": "two"}]
    assert [set(row.values) for row in read_table("t", ending, io.BytesIO(content))] == [
        {"a", "text"}
    ] * 2


def test_a_field_that_a_parquet_file_lacks_is_refused_though_it_has_no_row(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), tmp_path / "a")
    with (tmp_path / "a").open("rb") as stream:
        assert list(read_table("a", ".parquet", stream, field="text")) == []
        with pytest.raises(TextError, match="title"):
            list(read_table("a", ".parquet", stream, field="title"))
