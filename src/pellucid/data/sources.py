"""Documents and rows from files, folders, globs and standard input.

A document is a text file, or a row with one text. Text files come in pieces and rows one after
another, so neither fills the memory. If a file cannot be read, the message names it and says what
to do.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pellucid.data.arrow_rows import saved_dataset
from pellucid.data.columns import field_of, text_of
from pellucid.data.decode_text import read_plain_text
from pellucid.data.documents import Document, Piece, ReadCounts, join_pieces
from pellucid.data.streams import PIPED, Piped, inner_name, opened
from pellucid.data.table_rows import TABLES, Row, read_table
from pellucid.errors import TextError
from pellucid.presets import PRESETS
from pellucid.reader import is_pipe

PROSE = (".txt", ".text", ".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".bib")
PAGES = (".html", ".htm", ".xhtml", ".css", ".xml", ".srt", ".vtt")
SETTINGS = (".toml", ".yaml", ".yml", ".ini", ".cfg", ".cmake")
CODE = (
    *(".py", ".pyi", ".pyx", ".ipy", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cu"),
    *(".java", ".kt", ".scala", ".groovy", ".clj", ".cs", ".fs", ".vb", ".go", ".rs", ".zig"),
    *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".vue", ".svelte", ".php", ".rb", ".pl"),
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".sql", ".lua", ".r", ".jl", ".m"),
    *(".swift", ".dart", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".lisp", ".el", ".scm"),
    *(".f90", ".f", ".asm", ".s", ".proto", ".graphql", ".tf", ".nix", ".vim"),
)
#: The files that are read from a folder. If you name a file itself, it may have any ending.
SUFFIXES = (*PROSE, *CODE, *PAGES, *SETTINGS)
#: With a field, these too; not .json, which is often a description of the data.
_SEARCHED = tuple(ending for ending in TABLES if ending != ".json")
_FLAG = "--field"


@dataclass(frozen=True, slots=True)
class _Source:
    """A file or a pipe; a pipe can be read only once, so `pipes` keeps its bytes."""

    name: str
    file: Path | None
    pipes: Piped

    @property
    def is_piped(self) -> bool:
        return self.file is None or is_pipe(self.file)

    @contextmanager
    def opened(self) -> Generator[tuple[str, BinaryIO]]:
        """The ending, which is "" for a pipe, and the bytes."""
        if self.file is None or self.is_piped:
            yield "", self.pipes.opened(self.file)
            return
        with opened(self.file) as (inner, stream):
            yield Path(inner).suffix.lower(), stream


def documents_from(paths: Iterable[str], field: str | None = None) -> list[Document]:
    """The documents of `read_pieces`, joined, in memory."""
    return list(join_pieces(read_pieces(paths, field, ReadCounts(), Piped())))


def read_pieces(
    paths: Iterable[str | Path], field: str | None, tally: ReadCounts, piped: Piped
) -> Iterator[Piece]:
    """One document per text file and per row, in the order of paths.

    A text file comes in pieces of about a million bytes, a row as one piece. Folders are searched
    with all their subfolders. A path with `*`, `?` or `[` that names no file is a pattern, in which
    `**` matches folders of any depth; "-" is standard input. Files ending in .jsonl, .ndjson,
    .json, .csv, .tsv and .parquet are tables; with a field, standard input is JSON Lines. Files may
    be compressed (.gz, .zst, and .zip with one file in it). Line ends become "\\n"; a byte-order
    mark is dropped. Rows with an empty text are counted and skipped.

    Args:
        paths: files, folders, patterns or "-".
        field: the column of a table that holds the text.
        tally: counts files and rows, read or skipped.
        piped: stores the bytes of pipes for another pass.

    Raises:
        TextError: a path that does not exist, a folder without text, a field that is missing or not
            chosen, or a file that is empty, damaged or not UTF-8 text.
    """
    for source in _sources(paths, lambda path: _find_files(path, field, tally), piped):
        tally.files += 1
        with source.opened() as (ending, stream):
            if source.is_piped and field is not None:
                ending = ".jsonl"
            if ending not in TABLES:
                yield from _read_plain(source.name, stream)
            elif field is None:
                raise TextError(
                    f"{source.name} is a table: choose the field that holds the text with "
                    f"{_FLAG}, such as {_FLAG} text (from Python, field=)"
                )
            else:
                tally.tables += 1
                rows = read_table(source.name, ending, stream, field=field)
                yield from _read_texts(source.name, rows, field, tally)
    if field is not None and not tally.tables:
        raise TextError(
            f"the field {field!r} was chosen, but none of the files is a table with fields "
            f"({', '.join(TABLES)}): leave {_FLAG} out"
        )


def read_rows(paths: Iterable[str | Path], *, numbered: bool, piped: Piped) -> Iterator[Row]:
    """Row after row of all tables, in the order of paths; standard input is JSON Lines.

    Args:
        paths: files, and folders with tables.
        numbered: whether columns have numbers, so that first lines are data.
        piped: stores the bytes of pipes for another pass.

    Raises:
        TextError: a path that does not exist, a file that is no table, is damaged or empty, or a
            row that cannot be read.
    """
    for source in _sources(paths, lambda path: tables_in([path]), piped):
        empty = True
        with source.opened() as (ending, stream):
            lines = ".jsonl" if source.is_piped else ending
            for row in read_table(source.name, lines, stream, numbered=numbered):
                empty = False
                yield row
        if empty:
            raise TextError(f"{source.name} is empty: it has no rows")


def files_in(paths: Iterable[str | Path], field: str | None, tally: ReadCounts) -> list[Path]:
    """The files that `read_pieces` would read, in order, without standard input.

    Args:
        paths: files, folders, patterns or "-".
        field: the column of a table that holds the text.
        tally: counts the files that are skipped.

    Raises:
        TextError: a path that does not exist, or a folder without text.
    """
    return [file for path in paths for file in _find_files(path, field, tally)]


def tables_in(paths: Iterable[str | Path]) -> list[Path]:
    """The files that you name, and the tables in the folders that you name.

    Raises:
        TextError: a path that does not exist, or a folder without tables.
    """
    return [
        file for path in paths for file in _find_files(path, None, ReadCounts(), only_tables=True)
    ]


def _sources(
    paths: Iterable[str | Path], files_of: Callable[[str | Path], list[Path]], piped: Piped
) -> Iterator[_Source]:
    """The files of all paths, and standard input."""
    names = list(paths)
    if names.count("-") > 1:
        raise TextError("standard input can be read only once: name - once")
    for path in names:
        if path == "-":
            yield _Source(PIPED, None, piped)
        else:
            for file in files_of(path):
                yield _Source(str(file), file, piped)


def _read_plain(name: str, stream: BinaryIO) -> Iterator[Piece]:
    pending: str | None = None
    for text in read_plain_text(name, stream):
        if pending is not None:
            yield Piece(name, pending, last=False)
        pending = text
    if pending is not None:
        yield Piece(name, pending)


def _read_texts(name: str, rows: Iterable[Row], field: str, tally: ReadCounts) -> Iterator[Piece]:
    """The rows of a table as documents; rows without a text are counted."""
    empty = True
    for row in rows:
        tally.rows += 1
        value = field_of(row.location, row.values, field, flag=_FLAG)
        text = text_of(row.location, field, value, flag=_FLAG)
        if text.strip():
            empty = False
            yield Piece(f"{name}:{row.number}", text)
        else:
            tally.empty_rows += 1
    if empty:
        raise TextError(f"{name} is empty: no row has a text to learn from")


def _find_files(
    path: str | Path, field: str | None, tally: ReadCounts, *, only_tables: bool = False
) -> list[Path]:
    name = str(path)
    if not name.strip():
        raise TextError("a path is empty: pass a text file, a folder of text files, or -")
    place = Path(name)
    if place.is_dir():
        if field is not None or only_tables:
            saved = saved_dataset(place)
            if saved is not None:
                return saved
        return _in_folder(place, field, tally, only_tables=only_tables)
    if place.exists():
        return [place]
    if not glob.has_magic(name):
        preset = f"; the preset of that name is --preset {name}" if name in PRESETS else ""
        raise TextError(
            f"{name} does not exist: pass a text file, a folder of text files, or - for standard "
            f"input{preset}"
        )
    matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
    files = [match for match in matches if not match.is_dir()]
    if not files:
        raise TextError(
            f"no file matches {name}: * matches any part of a name, ** matches folders of any depth"
        )
    return files


def _in_folder(
    folder: Path, field: str | None, tally: ReadCounts, *, only_tables: bool
) -> list[Path]:
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
            f"the folder {folder} holds no {kind} among its {len(files):,} files: from a folder, "
            f"pellucid reads files ending in {', '.join(endings)}, not those in hidden "
            f"folders{hint}; to read a file with another ending, name the file"
        )
    tally.other_files += len(files) - len(readable)
    return readable


def _is_hidden(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder like .git or .venv within `folder`."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts[:-1])
