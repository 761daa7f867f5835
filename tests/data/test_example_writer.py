"""Examples are encoded with little in memory, and a killed process is continued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pellucid.data import (
    Example,
    Facts,
    PreparedData,
    Refusal,
    Row,
    RowCounts,
    array_writer,
    choose_by_digest,
    example_writer,
    prepare_examples,
)
from pellucid.errors import TextError
from support.rows import row

ROWS = [row(number, text=f"text {number % 17} " + "x" * number) for number in range(1, 60)]


class Letters:
    """Every letter is an id; every fifth row is left out, every third has its row kept."""

    def __init__(self) -> None:
        self.encoded: list[int] = []

    @property
    def choices(self) -> list[str]:
        return []

    def encode(self, row: Row) -> Example | Refusal:
        self.encoded.append(row.number)
        if row.number % 5 == 0:
            return Refusal("it is a fifth")
        text = str(row.values["text"])
        return Example(
            ids={"ids": [ord(letter) for letter in text], "label": [row.number % 2]},
            group=text[:7],
            row=row.number,
            classes=(row.number % 2,),
            row_json=f'{{"row":\n{row.number}}}',
        )


def divided(digests: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    held_out = choose_by_digest(digests, 0.3)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def prepare(
    folder: Path, form: Letters, rows: Iterable[Row] = ROWS, key: str | None = "key"
) -> PreparedData:
    def facts(counts: RowCounts) -> Facts:
        lines = counts.lines(("even", "odd"))
        return Facts(tokenizer_sha256="ab", classes=None, census={**counts.table(), "lines": lines})

    return prepare_examples(folder, form, rows, key=key, seed=7, divide=divided, facts=facts)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class PulledPlugError(Exception):
    """Raised to end a process without warning."""


def until(moment: int) -> Iterator[Row]:
    for number, example in enumerate(ROWS):
        if number == moment:
            raise PulledPlugError
        yield example


@pytest.mark.parametrize("moment", [2, 23, 41, 58])
@pytest.mark.parametrize("harm", ["none", "torn journal", "flipped byte", "other key", "no key"])
def test_interrupted_encoding_continues_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, harm: str
) -> None:
    monkeypatch.setattr(array_writer, "PART", 600)
    monkeypatch.setattr(example_writer, "BUFFER", 100)
    straight = prepare(tmp_path / "straight", Letters())
    key = None if harm == "no key" else "key"
    with pytest.raises(PulledPlugError):
        prepare(tmp_path / "examples", Letters(), until(moment), key)
    partial = tmp_path / "examples.partial"
    journal = partial / "parts.jsonl"
    if harm == "torn journal":
        journal.write_text(journal.read_text()[:-9])
    if harm == "flipped byte":
        content = bytearray((partial / "all.npy").read_bytes())
        content[140 % len(content)] ^= 1
        (partial / "all.npy").write_bytes(content)
    form = Letters()
    prepare(tmp_path / "examples", form, key="another" if harm == "other key" else key)
    assert contents(tmp_path / "examples") == contents(tmp_path / "straight")
    assert len(straight.train) + len(straight.held_out) == 48
    if harm == "none" and moment > 20:
        assert form.encoded[0] > 10
    if harm in ("flipped byte", "other key", "no key"):
        assert form.encoded == list(range(1, 60))
    assert {file.name for file in tmp_path.iterdir()} == {"straight", "examples"}


def test_sides_hold_whole_groups_in_the_order_of_the_rows(tmp_path: Path) -> None:
    stored = prepare(tmp_path / "examples", Letters())
    groups: list[set[int]] = []
    for side in (stored.train, stored.held_out):
        assert side.rows.tolist() == sorted(side.rows.tolist())
        assert side.texts == tuple(f'{{"row": {number}}}' for number in side.rows)
        groups.append({number % 17 for number in side.rows.tolist()})
        for index, number in enumerate(side.rows.tolist()):
            text = str(ROWS[number - 1].values["text"])
            assert side.columns["ids"][index].tolist() == [ord(letter) for letter in text]
            assert side.columns["label"][index].tolist() == [number % 2]
    assert not groups[0] & groups[1]
    assert stored.census["dropped"]["it is a fifth"]["rows"] == 11


def test_one_group_cannot_be_divided(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="2 examples of 1 group cannot be divided"):
        prepare(tmp_path / "examples", Letters(), [row(1, text="a"), row(2, text="a")])


def test_each_part_is_in_the_journal_before_the_next_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_writer, "PART", 600)
    monkeypatch.setattr(example_writer, "BUFFER", 100)
    journal, n_lines = tmp_path / "examples.partial" / "parts.jsonl", list[int]()

    def watched() -> Iterator[Row]:
        for one_row in ROWS:
            n_lines.append(journal.read_text().count("\n") if journal.is_file() else 0)
            yield one_row

    prepare(tmp_path / "examples", Letters(), watched())
    assert 0 < n_lines[len(ROWS) // 2] < n_lines[-1]
