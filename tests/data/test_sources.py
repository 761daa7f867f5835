from __future__ import annotations

import errno
import gzip
import io
import sys
from pathlib import Path

import pytest

from pellucid.data import Piped, ReadCounts, documents_from, read_pieces
from pellucid.data.sources import files_in
from pellucid.errors import TextError


def written(folder: Path, name: str, content: bytes) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return str(file)


def refusal(path: str) -> str:
    with pytest.raises(TextError) as refused:
        documents_from([path])
    return str(refused.value)


def test_file_becomes_a_document_with_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "Grüße, 世界 🙂\n".encode())
    (document,) = documents_from([path])
    assert (document.name, document.text) == (path, "Grüße, 世界 🙂\n")


def test_line_ends_of_every_system_become_one_and_the_byte_order_mark_goes(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\n\r\n")
    assert documents_from([path])[0].text == "one\ntwo\nthree\n\n"


@pytest.mark.parametrize(("before", "offset"), [(b"abc", 3), (b"\xef\xbb\xbfabc", 6)])
def test_text_that_is_not_utf8_is_refused_with_the_byte_and_its_offset(
    tmp_path: Path, before: bytes, offset: int
) -> None:
    path = written(tmp_path, "latin.txt", before + b"\xe9t\xe9")
    message = refusal(path)
    assert f"{path} is not UTF-8: byte 0xe9 at offset {offset}" in message
    assert f"iconv -f ISO-8859-1 -t UTF-8 {path}" in message


def test_mixed_encodings_are_not_to_be_converted_as_a_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "mixed.txt", "Grüße\n".encode() + b"caf\xe9\n" + "ß\n".encode())
    message = refusal(path)
    assert "byte 0xe9 at offset 11" in message
    assert "the file seems to mix two encodings" in message
    assert "iconv" not in message


def test_text_that_ends_within_a_character_is_cut_short_or_of_another_encoding(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "cut.txt", "die Grüße, ein Fluß".encode()[:-1])
    message = refusal(path)
    assert "byte 0xc3 at offset 20" in message
    assert "if it is incomplete, fetch" in message
    assert "if it is not UTF-8 at all, convert" in message


def test_advice_names_no_file_where_iconv_could_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = written(tmp_path, "latin.txt.gz", gzip.compress(b"caf\xe9 au lait"))
    assert "with iconv -f ISO-8859-1 -t UTF-8" in refusal(archive)
    assert not refusal(archive).endswith(".gz")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9 au lait")))
    assert refusal("-").endswith("-t UTF-8")


def test_binary_is_refused_with_the_offset_of_its_first_nul(tmp_path: Path) -> None:
    path = written(tmp_path, "image.txt", b"GIF\x89a\0\0")
    assert f"{path} is not a text: it has a NUL byte at offset 5" in refusal(path)


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, "empty.txt", content)
    assert refusal(path).startswith(f"{path} is empty")


def test_path_that_does_not_exist_is_refused_with_what_may_be_passed(tmp_path: Path) -> None:
    message = refusal(str(tmp_path / "nowhere"))
    assert "nowhere does not exist: pass a text file, a folder of text files, or -" in message
    assert refusal("nano").endswith("the preset of that name is --preset nano")


def test_folder_is_searched_to_the_bottom_in_the_order_of_paths(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/deep/c.rst", "skipped.png", "a/skipped.csv"):
        written(tmp_path, name, name.encode())
    texts = [document.text for document in documents_from([str(tmp_path)])]
    assert texts == ["a/deep/c.rst", "a/z.md", "b.txt"]


def test_folder_that_is_called_like_a_text_is_searched_and_not_read(tmp_path: Path) -> None:
    written(tmp_path, "chapters.txt/one.txt", b"one")
    assert [document.text for document in documents_from([str(tmp_path)])] == ["one"]


def test_folder_without_text_is_refused_with_the_endings_that_are_read(tmp_path: Path) -> None:
    written(tmp_path, "a.png", b"picture")
    message = refusal(str(tmp_path))
    assert "holds no text among its 1 files: from a folder, pellucid reads" in message
    assert "files ending in .txt, .text, .md" in message


def test_a_folder_of_tables_alone_is_refused_with_the_flag_that_reads_them(tmp_path: Path) -> None:
    for name in ("a.csv", "b.jsonl", "picture.png"):
        written(tmp_path, name, b"x")
    message = refusal(str(tmp_path))
    assert "holds no text among its 3 files" in message
    assert "for its 2 tables choose a field with --field" in message


def test_a_folder_of_source_code_is_text_and_what_is_no_text_is_counted(tmp_path: Path) -> None:
    names = ("main.py", "lib/deep/part.rs", "page.html", "setup.cfg")
    others = ("logo.png", "lib/x.so", ".venv/lib/theirs.py", ".git/hooks/sample.sh")
    for name in (*names, *others):
        written(tmp_path, name, name.encode())
    tally = ReadCounts()
    assert {file.name for file in files_in([str(tmp_path)], None, tally)} == {
        Path(name).name for name in names
    }
    assert tally.other_files == len(others)


def test_scripts_beside_tables_are_not_read_where_a_field_is_chosen(tmp_path: Path) -> None:
    written(tmp_path, "prepare.py", b"code")
    written(tmp_path, "rows.jsonl", b'{"text": "one"}')
    assert [d.text for d in documents_from([str(tmp_path)], "text")] == ["one"]


def test_a_hidden_folder_that_is_named_itself_is_read(tmp_path: Path) -> None:
    written(tmp_path, ".notes/one.txt", b"one")
    assert [d.text for d in documents_from([str(tmp_path / ".notes")])] == ["one"]


def test_file_named_by_itself_may_be_called_anything(tmp_path: Path) -> None:
    path = written(tmp_path, "notes.py", b"a note")
    assert documents_from([path])[0].text == "a note"


def test_paths_stay_in_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    paths = [written(tmp_path, name, name.encode()) for name in ("z.txt", "a.txt")]
    assert [document.name for document in documents_from(paths)] == paths


def test_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO("naïve\r\n".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", piped)
    (document,) = documents_from(["-"])
    assert (document.name, document.text) == ("standard input", "naïve\n")


def test_standard_input_is_read_again_but_is_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one text")))
    piped = Piped()
    for _ in range(3):
        assert [piece.text for piece in read_pieces(["-"], None, ReadCounts(), piped)] == [
            "one text"
        ]
    with pytest.raises(TextError, match="standard input can be read only once"):
        documents_from(["-", "-"])


def test_standard_input_that_cannot_be_stored_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one text")))
    monkeypatch.setattr("pellucid.data.streams.tempfile.TemporaryFile", full)
    assert "(No space left on device): set TMPDIR to a folder" in refusal("-")


def test_empty_standard_input_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert refusal("-").startswith("standard input is empty")


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_text_that_comes_in_blocks_is_the_text_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("pellucid.data.decode_text._BLOCK", block)
    content = "\ufeffGrüße,\r\n世界 🙂\r\r\n\n end\r"
    path = written(tmp_path, "a.txt", content.encode())
    assert documents_from([path])[0].text == "Grüße,\n世界 🙂\n\n\n end\n"
    assert "empty" in refusal(written(tmp_path, "b.txt", b" \r\n \r"))
    broken = written(tmp_path, "c.txt", "ä€🙂".encode() + b"x\xe9y")
    assert "byte 0xe9 at offset 10 cannot" in refusal(broken)
    assert "NUL byte at offset 4" in refusal(written(tmp_path, "d.txt", "ää\0".encode()))
    cut = written(tmp_path, "e.txt", "ä🙂".encode()[:-1])
    assert "byte 0xf0 at offset 2 cannot" in refusal(cut)


def test_an_archive_that_ends_before_its_text_is_refused(tmp_path: Path) -> None:
    archive = gzip.compress(bytes(range(65, 91)) * 1000, 0)
    message = refusal(written(tmp_path, "a.txt.gz", archive[: len(archive) // 2]))
    assert "is incomplete: the archive ends before its text" in message
