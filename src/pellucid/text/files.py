"""Documents from files, folders, globs and standard input.

Comes in: paths, and the field that holds the text of a row. Goes out: one document per text file
and per row of a table, and a count of what was read and what was not. It does not know tokens;
what is not text is refused with the name of the file and what to do.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pellucid.errors import TextError
from pellucid.text.documents import Document, Tally
from pellucid.text.plain import plain_text
from pellucid.text.rows import TABLES, Rows, json_lines
from pellucid.text.streams import COMPRESSED, inner_name, opened, standard_input

#: What is read when a folder is named; a file named by itself may be called anything.
SUFFIXES = (".txt", ".md", ".rst")


def documents_from(paths: Iterable[str], field: str | None = None) -> list[Document]:
    """All that `read_documents` gives, as a list."""
    return list(read_documents(paths, field, Tally()))


def read_documents(paths: Iterable[str], field: str | None, tally: Tally) -> Iterator[Document]:
    """One document per text file and per row, in the order of paths; `tally` counts on the way.

    Folders are searched to the bottom; a path with `*`, `?` or `[` that names no file is a pattern,
    `**` standing for folders of any depth; "-" is standard input. Files ending in .jsonl, .csv,
    .tsv and .parquet are tables whose `field` holds the text; with a field, standard input is JSON
    Lines. Files may be compressed (.gz, .zst). Line ends become "\\n"; a byte-order mark is
    dropped. Rows with an empty text are counted and left out.

    Raises:
        TextError: a path that does not exist, a folder without text, a field that is missing or not
            chosen, a file that is empty, damaged or not UTF-8 text.
    """
    for path in paths:
        if path == "-":
            yield from _standard_input(field, tally)
            continue
        for file in _files(path, field, tally):
            tally.files += 1
            yield from _documents(file, field, tally)
    if field is not None and not tally.tables:
        raise TextError(
            f"the field {field!r} was chosen, but none of the files is a table with fields "
            f"({', '.join(TABLES)}): leave --field out"
        )


def files_in(paths: Iterable[str], field: str | None, tally: Tally) -> list[Path]:
    """The files that `read_documents` would read, in order; standard input is none.

    Raises:
        TextError: a path that does not exist, or a folder without text.
    """
    return [file for path in paths for file in _files(path, field, tally)]


def _standard_input(field: str | None, tally: Tally) -> Iterator[Document]:
    name, stream = "standard input", standard_input()
    tally.files += 1
    if field is None:
        yield Document(name, plain_text(name, stream.read()))
    else:
        yield from _counted(name, json_lines(name, stream, field), tally)


def _documents(file: Path, field: str | None, tally: Tally) -> Iterator[Document]:
    name, ending = str(file), Path(inner_name(file.name)).suffix.lower()
    read = TABLES.get(ending)
    if read is None:
        with opened(file) as stream:
            yield Document(name, plain_text(name, stream.read()))
        return
    if field is None:
        raise TextError(
            f"{file} is a table: choose the field that holds the text with --field, such as "
            "--field text (from Python, field=)"
        )
    if ending == ".parquet" and file.suffix.lower() in COMPRESSED:
        raise TextError(f"{file}: a Parquet file cannot be read from an archive: unpack it first")
    with opened(file) as stream:
        yield from _counted(name, read(name, stream, field), tally)


def _counted(name: str, rows: Rows, tally: Tally) -> Iterator[Document]:
    tally.tables += 1
    texts = 0
    for number, text in rows:
        tally.rows += 1
        if text.strip():
            texts += 1
            yield Document(f"{name}:{number}", text)
        else:
            tally.empty_rows += 1
    if not texts:
        raise TextError(f"{name} is empty: no row has a text to learn from")


def _files(path: str, field: str | None, tally: Tally) -> list[Path]:
    place = Path(path)
    if place.is_dir():
        return _in_folder(place, field, tally)
    if place.exists():
        return [place]
    if not glob.has_magic(path):
        raise TextError(
            f"{path} does not exist: pass a text file, a folder of text files, or - for standard "
            "input"
        )
    found = [Path(each) for each in sorted(glob.glob(path, recursive=True))]
    files = [each for each in found if not each.is_dir()]
    if not files:
        raise TextError(
            f"no file is called like {path}: * stands for any part of a name, ** for folders of "
            "any depth"
        )
    return files


def _in_folder(folder: Path, field: str | None, tally: Tally) -> list[Path]:
    endings = SUFFIXES if field is None else (*SUFFIXES, *TABLES)
    places = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    files = sorted(file for file in places if not file.is_dir())
    found = [f for f in files if Path(inner_name(f.name)).suffix.lower() in endings]
    if not found:
        tables = sum(Path(inner_name(f.name)).suffix.lower() in TABLES for f in files)
        hint = f"; for its {tables} tables choose a field with --field" if tables else ""
        raise TextError(
            f"the folder {folder} holds no text: files ending in {', '.join(endings)} are read "
            f"from a folder{hint}; name a file by itself to read it whatever its ending"
        )
    tally.other_files += len(files) - len(found)
    return found
