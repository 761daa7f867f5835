"""Documents from files, folders, globs and standard input.

Comes in: paths, and the field that holds the text of a row. Goes out: one document per text file
and per row of a table, in pieces, and a count of what was read and what was not. It does not know
tokens; what is not text is refused with the name of the file and what to do.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pellucid.data.decode_text import plain_text
from pellucid.data.documents import Document, Piece, Tally, whole
from pellucid.data.endings import PROSE, SUFFIXES
from pellucid.data.streams import COMPRESSED, PIPED, Piped, inner_name, opened
from pellucid.data.table_texts import TABLES, Rows, json_lines
from pellucid.errors import TextError
from pellucid.reader import is_pipe

#: With a field, these too; not .json, which is as often a description that lies beside the data.
_SEARCHED = tuple(ending for ending in TABLES if ending != ".json")


def documents_from(paths: Iterable[str], field: str | None = None) -> list[Document]:
    """All that `read_pieces` gives, put together, in memory."""
    return list(whole(read_pieces(paths, field, Tally(), Piped())))


def read_pieces(
    paths: Iterable[str | Path], field: str | None, tally: Tally, piped: Piped
) -> Iterator[Piece]:
    """One document per text file and per row, in the order of paths; `tally` counts on the way.

    A text file comes in pieces of about a million bytes, a row whole. Folders are searched to the
    bottom; a path with `*`, `?` or `[` that names no file is a pattern, `**` standing for folders
    of any depth; "-" is standard input. Files ending in .jsonl, .ndjson, .json, .csv, .tsv and
    .parquet are tables whose `field` holds the text; with a field, standard input is JSON Lines.
    Files may be compressed (.gz, .zst). Line ends become "\\n"; a byte-order mark is dropped. Rows
    with an empty text are counted and left out.

    Raises:
        TextError: a path that does not exist, a folder without text, a field that is missing or not
            chosen, a file that is empty, damaged or not UTF-8 text.
    """
    named = list(paths)
    if named.count("-") > 1:
        raise TextError("standard input is named twice: it holds one text; name - once")
    for path in named:
        if path == "-":
            yield from _from_pipe(PIPED, piped.opened(), field, tally)
            continue
        for file in _files(path, field, tally):
            if is_pipe(file):
                yield from _from_pipe(str(file), piped.opened(file), field, tally)
                continue
            tally.files += 1
            yield from _pieces(file, field, tally)
    if field is not None and not tally.tables:
        raise TextError(
            f"the field {field!r} was chosen, but none of the files is a table with fields "
            f"({', '.join(TABLES)}): leave --field out"
        )


def files_in(paths: Iterable[str | Path], field: str | None, tally: Tally) -> list[Path]:
    """The files that `read_pieces` would read, in order; standard input is none.

    Raises:
        TextError: a path that does not exist, or a folder without text.
    """
    return [file for path in paths for file in _files(path, field, tally)]


def tables_in(paths: Iterable[str | Path]) -> list[Path]:
    """The files that are named, and of folders those that are tables.

    Raises:
        TextError: a path that does not exist, or a folder without tables.
    """
    return [file for path in paths for file in _files(path, "", Tally(), only_tables=True)]


def _from_pipe(name: str, stream: BinaryIO, field: str | None, tally: Tally) -> Iterator[Piece]:
    tally.files += 1
    if field is None:
        yield from _plain(name, stream)
    else:
        yield from _counted(name, json_lines(name, stream, field), tally)


def _plain(name: str, stream: BinaryIO) -> Iterator[Piece]:
    held: str | None = None
    for text in plain_text(name, stream):
        if held is not None:
            yield Piece(name, held, last=False)
        held = text
    if held is not None:
        yield Piece(name, held)


def _pieces(file: Path, field: str | None, tally: Tally) -> Iterator[Piece]:
    name, ending = str(file), Path(inner_name(file.name)).suffix.lower()
    read = TABLES.get(ending)
    if read is None:
        with opened(file) as stream:
            yield from _plain(name, stream)
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


def _counted(name: str, rows: Rows, tally: Tally) -> Iterator[Piece]:
    tally.tables += 1
    texts = 0
    for number, text in rows:
        tally.rows += 1
        if text.strip():
            texts += 1
            yield Piece(f"{name}:{number}", text)
        else:
            tally.empty_rows += 1
    if not texts:
        raise TextError(f"{name} is empty: no row has a text to learn from")


def _files(
    path: str | Path, field: str | None, tally: Tally, *, only_tables: bool = False
) -> list[Path]:
    name = str(path)
    if not name.strip():
        raise TextError("a path is empty: pass a text file, a folder of text files, or -")
    place = Path(name)
    if place.is_dir():
        return _in_folder(place, field, tally, only_tables=only_tables)
    if place.exists():
        return [place]
    if not glob.has_magic(name):
        raise TextError(
            f"{name} does not exist: pass a text file, a folder of text files, or - for standard "
            "input"
        )
    matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
    files = [match for match in matches if not match.is_dir()]
    if not files:
        raise TextError(
            f"no file is called like {name}: * stands for any part of a name, ** for folders of "
            "any depth"
        )
    return files


def _in_folder(folder: Path, field: str | None, tally: Tally, *, only_tables: bool) -> list[Path]:
    endings = SUFFIXES if field is None else (*PROSE, *_SEARCHED)
    endings = _SEARCHED if only_tables else endings
    places = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    files = sorted(file for file in places if not file.is_dir())
    readable = [
        f
        for f in files
        if Path(inner_name(f.name)).suffix.lower() in endings and not _is_hidden(f, folder)
    ]
    if not readable:
        tables = sum(Path(inner_name(f.name)).suffix.lower() in _SEARCHED for f in files)
        kind = "table" if only_tables else "text"
        hint = f"; for its {tables} tables choose a field with --field" if tables else ""
        raise TextError(
            f"the folder {folder} holds no {kind} among its {len(files):,} files: files ending in "
            f"{', '.join(endings)} are read from a folder, but for hidden folders in it{hint}; "
            "name a file by itself to read it whatever its ending"
        )
    tally.other_files += len(files) - len(readable)
    return readable


def _is_hidden(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder like .git or .venv within `folder`."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts[:-1])
