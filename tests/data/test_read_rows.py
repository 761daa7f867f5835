from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from pathlib import Path

import pytest

from pellucid.data import Piped
from pellucid.data.sources import read_rows
from pellucid.data.table_rows import Row, read_table
from pellucid.errors import TextError

VALUES = [{"a": "Grüße", "b": 'with "quotes", a\ttab'}, {"a": "two\nlines", "b": ""}]
LINES = "".join(json.dumps(each) + "\n" for each in VALUES).encode()
COMMAS = 'a,b\nGrüße,"with ""quotes"", a\ttab"\n"two\nlines",\n'.encode()


def read(*paths: Path | str, numbered: bool = False) -> list[Row]:
    return list(read_rows([str(path) for path in paths], numbered=numbered, piped=Piped()))


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def refusal(path: Path, *, numbered: bool = False) -> str:
    with pytest.raises(TextError) as refused:
        read(path, numbered=numbered)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES),
        ("a.ndjson", b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n\r\n")),
        ("a.json", json.dumps(VALUES).encode()),
        ("a.csv", COMMAS),
        ("a.csv", b"\xef\xbb\xbf" + COMMAS.replace(b"\n", b"\r\n")),
        ("a.jsonl.gz", gzip.compress(LINES)),
    ],
)
def test_rows_of_every_kind_of_file_are_the_same(tmp_path: Path, name: str, content: bytes) -> None:
    table_rows = read(written(tmp_path, name, content))
    assert [dict(row.values) for row in table_rows] == VALUES
    assert all(
        row.location.startswith(f"{tmp_path / name}, row {row.number}") for row in table_rows
    )


def test_parquet_rows_keep_their_types(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {"label": [0, None], "chat": [[{"role": "user", "content": "Hi"}], []]}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    first, second = read(tmp_path / "a.parquet")
    assert first.values == {"label": 0, "chat": [{"role": "user", "content": "Hi"}]}
    assert second.values == {"label": None, "chat": []}


def test_zstd_rows_are_read(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    assert len(read(written(tmp_path, "a.jsonl.zst", zstandard.compress(LINES)))) == 2


def test_columns_by_number_make_the_first_line_data_in_which_quotes_are_signs(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "SMS", b'ham\t"Hi\r\nspam\tfree "now"\r\n')
    assert [row.values for row in read(path, numbered=True)] == [
        {"1": "ham", "2": '"Hi'},
        {"1": "spam", "2": 'free "now"'},
    ]
    commas = read(written(tmp_path, "a.csv", b'ham,"a, b"\nspam,c\n'), numbered=True)
    assert [(row.number, row.values["2"]) for row in commas] == [(1, "a, b"), (2, "c")]


def test_of_a_table_only_the_column_that_is_needed_is_read() -> None:
    stream = io.BytesIO(b"id,text\n1,one\n2,two\n")
    table_rows = list(read_table("a.csv", ".csv", stream, field="text"))
    assert [row.values for row in table_rows] == [{"text": "one"}, {"text": "two"}]


def test_a_file_without_names_is_not_guessed(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "SMS", b"ham\tHi\n"))
    assert "is not a table that names its columns" in message
    assert "--columns label=1,text=2" in message


def test_a_line_with_another_number_of_values_is_refused_with_its_number(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "SMS", b"ham\tHi\nspam\n"), numbered=True)
    assert "row 2: has 1 values, but the first line has 2" in message
    message = refusal(written(tmp_path, "a.csv", b"a,b\n1\n"))
    assert "row 1 (line 2): has 1 values, but the first line names 2" in message


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.zip.gz"])
def test_what_needs_the_whole_file_is_not_read_from_an_archive(tmp_path: Path, name: str) -> None:
    with pytest.raises(TextError, match="cannot read such a file from an archive: unpack it"):
        read(written(tmp_path, name, gzip.compress(b"x")))


def test_a_zip_is_read_where_it_holds_one_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("_about.txt", "who made it")
        archive.writestr("fra.txt", "Go.\tVa !\nRun!\tCours !\n")
    assert [row.values["2"] for row in read(tmp_path / "a.zip", numbered=True)] == [
        "Va !",
        "Cours !",
    ]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    assert "b.zip holds 2 files ('a.csv', 'b.csv')" in refusal(tmp_path / "b.zip")
    cut = (tmp_path / "a.zip").read_bytes()[:-30]
    assert "is damaged" in refusal(written(tmp_path, "c.zip", cut))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.jsonl",
            b'{"a": 1}\n[1]\n',
            "row 2: expected a JSON object with named columns, was [1]",
        ),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "row 2: is not valid JSON"),
        ("a.json", b"[]", "is empty: it has no rows"),
        ("a.csv", b"a,b\n", "is empty: it has no rows"),
        ("a.csv", b"a,a\n1,2\n", "names 'a' more than once"),
        ("a.jsonl", b'{"a": "\xe9"}\n', "row 1 is not UTF-8"),
    ],
)
def test_what_is_no_row_is_refused(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    assert expected in refusal(written(tmp_path, name, content))


def test_of_a_folder_the_tables_are_read(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", LINES)
    written(tmp_path, "README.md", b"# About")
    assert len(read(tmp_path)) == 2
    (tmp_path / "a.jsonl").unlink()
    assert "holds no table" in refusal(tmp_path)


def test_standard_input_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    assert [row.location for row in read("-")] == ["standard input, row 1", "standard input, row 2"]


def test_public_tables_without_headers_are_whole(shared_data: Path) -> None:
    messages = read(shared_data / "sms-spam" / "SMSSpamCollection", numbered=True)
    assert len(messages) == 5574
    assert sum(row.values["1"] == "spam" for row in messages) == 747
    pairs = read(shared_data / "tatoeba-fra-eng" / "fra-eng.zip", numbered=True)
    assert len(pairs) == 142_787
    assert pairs[0].values == {"1": "Go.", "2": "Va !"}
