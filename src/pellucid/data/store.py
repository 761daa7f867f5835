"""Examples encoded once into memory-mapped ragged arrays, with their row numbers and checksums.

    examples.json              counts, checksums, the tokenizer's hash, classes, the census
    train.ids.npy              a column of the training side: all its numbers end to end,
    train.ids.starts.npy       and where those of each example start
    train.rows.npy             the row that each example was read from
    train.texts.jsonl          the rows themselves, if a reward needs them

pellucid writes the folder under a temporary name and renames it at the end, so it never uses an
unfinished one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import decode
from pellucid.data.array_writer import JOURNAL
from pellucid.data.checksums import file_sha256
from pellucid.errors import PellucidError, TextError
from pellucid.reader import LARGE, read_json_table, read_text
from pellucid.version import READABLE

Indices = npt.NDArray[np.int64]

#: Lists in one block of a copy.
_CHUNK = 4096

MANIFEST = "examples.json"
SIDES = ("train", "held_out")
#: While examples are encoded: their numbers, the starts of their columns, their row numbers, the
#: digests of their groups, and the rows as JSON. They are removed when both sides are written.
STAGED = (
    *("all.npy", "all.starts.npy", "all.rows.npy"),
    *("all.groups.npy", "all.texts.npy", "all.texts.starts.npy"),
)
#: All files of a folder of examples, finished or not.
EXAMPLE_FILES = (
    MANIFEST,
    *(f"{side}.{form}" for side in SIDES for form in ("*.npy", "texts.jsonl")),
    JOURNAL,
    *STAGED,
)


def gather(
    flat: npt.NDArray[Any], starts: npt.NDArray[Any], places: Indices
) -> Iterator[tuple[npt.NDArray[Any], Indices]]:
    """The lists at `places`, end to end, in blocks of a few thousand, and their lengths."""
    ends = np.append(starts[1:], len(flat))
    for first in range(0, len(places), _CHUNK):
        chunk = places[first : first + _CHUNK]
        lengths = ends[chunk] - starts[chunk]
        shifts = starts[chunk] - np.cumsum(lengths) + lengths
        yield flat[np.repeat(shifts, lengths) + np.arange(lengths.sum())], lengths


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of whole numbers of any length, end to end; list i starts at `starts[i]`."""

    flat: npt.NDArray[Any]
    starts: npt.NDArray[Any]

    @property
    def lengths(self) -> Indices:
        """The length of each list."""
        return np.diff(self.starts.astype(np.int64), append=len(self.flat))

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, chosen: Indices) -> Ragged:
        """The lists at these places, one or more."""
        lists = [self[int(place)] for place in chosen]
        ends = np.cumsum([len(row) for row in lists])
        return Ragged(np.concatenate(lists), np.concatenate(([0], ends[:-1])))

    def __getitem__(self, index: int) -> Indices:
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.flat)
        return self.flat[int(self.starts[index]) : int(end)].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """One side: its columns, the row numbers, and the rows as JSON if they are stored."""

    columns: Mapping[str, Ragged]
    rows: npt.NDArray[Any]
    texts: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def longest_row(self) -> int:
        """The tokens of the longest row of any column."""
        return max(int(column.lengths.max(initial=1)) for column in self.columns.values())

    def spread(self, n: int) -> Examples:
        """`n` examples, evenly spaced because rows are often sorted."""
        if n >= len(self):
            return self
        chosen = np.arange(n, dtype=np.int64) * len(self) // n
        columns = {name: column.take(chosen) for name, column in self.columns.items()}
        texts = None if self.texts is None else [self.texts[int(place)] for place in chosen]
        return Examples(columns, self.rows[chosen], texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file of the folder, and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """How many examples a side has, which columns, and its files' checksums."""

    examples: int
    columns: tuple[str, ...]
    files: tuple[FileFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`examples.json`, but for the census."""

    format: int
    tokenizer_sha256: str
    classes: tuple[str, ...] | None
    train: SideFacts
    held_out: SideFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the examples.

    Attributes:
        tokenizer_sha256: the hash of the tokenizer.
        classes: the names of the classes in the order of their numbers.
        census: the counts of rows, as JSON.
    """

    tokenizer_sha256: str
    classes: tuple[str, ...] | None
    census: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class StoredExamples:
    """Both sides, memory-mapped, and facts about them."""

    train: Examples
    held_out: Examples
    facts: Facts


def open_examples(folder: Path, *, verify: bool = False) -> StoredExamples:
    """Map the examples in `folder`; with `verify`, compare every checksum.

    Raises:
        TextError: a file is missing, has another format, or does not match its checksum.
    """
    try:
        table = read_json_table(folder / MANIFEST)
        census = table.pop("census")
        manifest = decode(Manifest, table, MANIFEST)
        if manifest.format not in READABLE:
            raise ValueError(f"format {manifest.format}, this version reads {READABLE}")
        return StoredExamples(
            train=_open(folder, "train", manifest.train, verify),
            held_out=_open(folder, "held_out", manifest.held_out, verify),
            facts=Facts(
                tokenizer_sha256=manifest.tokenizer_sha256,
                classes=manifest.classes,
                census=census,
            ),
        )
    except (OSError, ValueError, KeyError, PellucidError) as error:
        raise TextError(
            f"the prepared examples in {folder} are damaged or incomplete ({error}): start a new "
            "run from the same rows"
        ) from None


def _open(folder: Path, side: str, facts: SideFacts, verify: bool) -> Examples:
    for file in facts.files:
        if not (folder / file.name).is_file():
            raise ValueError(f"{file.name} is missing")
        if verify and file_sha256(folder / file.name) != file.sha256:
            raise ValueError(f"{file.name} does not match its checksum")
    columns = {
        name: Ragged(
            _mapped(folder / f"{side}.{name}.npy"), _mapped(folder / f"{side}.{name}.starts.npy")
        )
        for name in facts.columns
    }
    file, texts = folder / f"{side}.texts.jsonl", None
    if file.name in {stored.name for stored in facts.files}:
        # not splitlines, which also splits at characters that end no line
        texts = tuple(read_text(file, limit=LARGE).split("\n")[:-1])
    opened = Examples(columns, _mapped(folder / f"{side}.rows.npy"), texts)
    counts = [len(opened.rows), *(len(column) for column in columns.values())]
    if {*counts, facts.examples} != {facts.examples} or len(texts or opened.rows) != facts.examples:
        raise ValueError(f"{side} does not have the {facts.examples} examples that were written")
    return opened


def _mapped(file: Path) -> npt.NDArray[Any]:
    return np.load(file, mmap_mode="r")
