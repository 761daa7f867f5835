"""Examples written to disk while rows are encoded, and then divided between the two sides.

All examples first go to arrays that grow on disk. Only when all are there, pellucid knows which are
held out, and copies each side. So memory holds 40 bytes per example, and a later process continues
where a killed one stopped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.data.array_writer import JOURNAL, Values, journaled_folder
from pellucid.data.example import Form
from pellucid.data.manifest import (
    DATA_FILES,
    SIDES,
    STAGED,
    Facts,
    FileFacts,
    Manifest,
    SideFacts,
    write_manifest,
)
from pellucid.data.skipped_rows import RowCounts, encode_rows
from pellucid.data.split import group_digest
from pellucid.data.store import Indices, PreparedData, gather, open_prepared
from pellucid.data.table_rows import Row
from pellucid.disk import remove_file
from pellucid.errors import TextError
from pellucid.reader import file_sha256
from pellucid.version import FORMAT

#: Numbers and characters of text that are collected before they go to the arrays.
BUFFER = 2**16
_STAGE = "all"


class Numbered(Protocol):
    """An example: its columns as whole numbers, and the number of the row it was read from."""

    @property
    def ids(self) -> Mapping[str, Sequence[int]]:
        """The columns by name."""
        ...

    @property
    def row(self) -> int:
        """The row's number."""
        ...


R = TypeVar("R", bound=Numbered)


@dataclass(slots=True)
class _Progress:
    """The names of the columns, and how much each array has so far."""

    columns: list[str] = field(default_factory=list[str])
    n_ids: int = 0
    n_text: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Staged:
    """All examples, mapped from the folder, before they are divided."""

    columns: tuple[str, ...]
    ids: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    groups: npt.NDArray[Any]
    texts: npt.NDArray[Any]
    text_starts: npt.NDArray[Any]

    def numbers(self, chosen: Indices, column: int) -> Iterator[tuple[npt.NDArray[Any], Indices]]:
        """The numbers of a column of the chosen examples, end to end, and how many each has."""
        places = chosen * len(self.columns) + column
        return gather(self.ids, self.starts, places)

    def lines(self, chosen: Indices) -> Iterator[bytes]:
        """The row of each chosen example as a line of JSON; nothing if no rows are stored."""
        if len(self.text_starts):
            for text, _ in gather(self.texts, self.text_starts, chosen):
                yield text.tobytes()


def write(
    folder: Path,
    sides: Mapping[str, Iterable[R]],
    facts: Facts,
    *,
    text_of: Callable[[R], str] | None = None,
) -> PreparedData:
    """Write the sides "train" and "held_out" into `folder`, and map them from there.

    Args:
        folder: the folder for them.
        sides: the examples of each side.
        facts: the tokenizer, the classes and the counts.
        text_of: a row as one line of JSON; None stores no rows.

    Raises:
        TextError: a side is empty, or its examples differ in their columns.
    """
    examples = {side: list(sides[side]) for side in SIDES}
    n_train = len(examples["train"])
    rows = ((example, b"", text_of and text_of(example)) for example in chain(*examples.values()))
    progress = _Progress()
    with journaled_folder(folder, DATA_FILES, key=None) as journal:
        journal.write(_STAGE, STAGED, _staged_values(rows, progress), dict[str, Any])
        staged = _open_staged(journal.folder, progress.columns)
        places = np.arange(len(staged.rows))
        _write_sides(journal.folder, staged, (places[:n_train], places[n_train:]), facts)
    return open_prepared(folder)


def prepare_examples(
    folder: Path,
    form: Form,
    rows: Iterable[Row],
    *,
    key: str | None,
    seed: int,
    divide: Callable[[npt.NDArray[np.uint8]], tuple[Indices, Indices]],
    facts: Callable[[RowCounts], Facts],
) -> PreparedData:
    """Encode rows into `folder` and divide them, with little in memory.

    Args:
        folder: the folder for the examples.
        form: makes an example of a row.
        rows: all rows, from the first.
        key: a hash of everything that the examples depend on; a process with the same key
            continues the work of a killed one. None starts again.
        seed: of the split.
        divide: which examples train and which are held out, by the digests of their groups.
        facts: the facts of the examples, from the counts.

    Raises:
        TextError: a row that you have to correct, or a side without examples.
    """
    keep = (JOURNAL, *(f"{name}.npy" for name in STAGED))
    with journaled_folder(folder, DATA_FILES, key=key, keep=keep) as journal:
        stored = journal.counts(_STAGE)
        counts = RowCounts.from_table(stored["rows"]) if stored else RowCounts()
        progress = _Progress(**stored["progress"]) if stored else _Progress()
        examples = encode_rows(form, islice(rows, counts.rows, None), counts)
        values = _staged_values(
            (
                (example, group_digest(example.group, seed), example.row_json)
                for example in examples
            ),
            progress,
        )
        journal.write(
            _STAGE,
            STAGED,
            values,
            lambda: {"progress": asdict(progress), "rows": counts.as_stored()},
        )
        staged = _open_staged(journal.folder, progress.columns)
        sides = divide(staged.groups.reshape(-1, 32))
        _write_sides(journal.folder, staged, sides, facts(counts))
    return open_prepared(folder)


def _staged_values(
    examples: Iterable[tuple[Numbered, bytes, str | None]], progress: _Progress
) -> Iterator[Values]:
    """The values that the examples append to the arrays, in blocks; `progress` counts them."""
    columns = progress.columns
    ids, starts, rows, text_starts = array("L"), array("q"), array("q"), array("q")
    groups, texts = bytearray(), bytearray()
    buffers = dict(zip(STAGED, (ids, starts, rows, groups, texts, text_starts), strict=True))

    def take_block() -> Values:
        block = {name: np.array(buffer, dtype=STAGED[name]) for name, buffer in buffers.items()}
        progress.n_ids, progress.n_text = progress.n_ids + len(ids), progress.n_text + len(texts)
        for buffer in buffers.values():
            del buffer[:]
        return block

    for example, digest, text in examples:
        if not columns:
            columns += example.ids
        if set(example.ids) != set(columns):
            raise TextError(
                f"row {example.row} has the columns {', '.join(example.ids)}, but the rows before "
                f"it have {', '.join(columns)}: all examples must have the same columns"
            )
        for name in columns:
            starts.append(progress.n_ids + len(ids))
            ids.extend(example.ids[name])
        rows.append(example.row)
        groups += digest
        if text is not None:
            text_starts.append(progress.n_text + len(texts))
            texts += text.replace("\n", " ").encode() + b"\n"
        if len(ids) + len(texts) >= BUFFER:
            yield take_block()
    yield take_block()


def _open_staged(folder: Path, columns: Sequence[str]) -> _Staged:
    arrays = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in STAGED)
    return _Staged(tuple(columns), *arrays)


def _write_sides(
    folder: Path, staged: _Staged, sides: tuple[Indices, Indices], facts: Facts
) -> None:
    """Write both sides and the manifest, and remove the staged arrays."""
    train, held_out = (
        _write_side(folder, side, staged, chosen) for side, chosen in zip(SIDES, sides, strict=True)
    )
    manifest = Manifest(
        format=FORMAT,
        tokenizer_sha256=facts.tokenizer_sha256,
        classes=facts.classes,
        train=train,
        held_out=held_out,
    )
    write_manifest(folder, manifest, facts.census)
    for name in STAGED:
        remove_file(folder / f"{name}.npy")


def _write_side(folder: Path, side: str, staged: _Staged, chosen: Indices) -> SideFacts:
    if not len(chosen):
        raise TextError(f"no example is left on the side {side}: pass more rows")
    np.save(folder / f"{side}.rows.npy", staged.rows[chosen])
    names = [f"{side}.rows.npy"]
    for place, column in enumerate(staged.columns):
        parts = [(int(n.max(initial=0)), sizes) for n, sizes in staged.numbers(chosen, place)]
        highest = max(largest for largest, _ in parts)
        lengths = np.concatenate([sizes for _, sizes in parts])
        names += [f"{side}.{column}.npy", f"{side}.{column}.starts.npy"]
        flat = np.lib.format.open_memmap(  # pyright: ignore[reportUnknownMemberType]
            folder / names[-2], "w+", np.min_scalar_type(highest), shape=(int(lengths.sum()),)
        )
        start = 0
        for numbers, _ in staged.numbers(chosen, place):
            flat[start : start + len(numbers)] = numbers
            start += len(numbers)
        flat.flush()
        np.save(folder / names[-1], np.cumsum(lengths) - lengths)
    if len(staged.text_starts):
        names.append(f"{side}.texts.jsonl")
        with (folder / names[-1]).open("wb") as file:
            file.writelines(staged.lines(chosen))
    files = (FileFacts(name=name, sha256=file_sha256(folder / name)) for name in names)
    return SideFacts(examples=len(chosen), columns=staged.columns, files=tuple(files))
