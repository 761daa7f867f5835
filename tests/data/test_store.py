from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data import (
    Document,
    Examples,
    Facts,
    Split,
    check_tokenizer,
    choose_held_out,
    open_prepared,
    prepare_documents,
    write,
)
from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer
from support.corpora import parts_of, refuses_half_and_none
from support.examples import Example

OLD = Path(__file__).parent / "runs_0_1"

FACTS = Facts(tokenizer_sha256="ab", classes=("ham", "spam"), census={"truncated": [3, 4]})
TRAIN = (
    Example({"ids": [7, 70_000, 9], "label": [1]}, row=1, text='{"a": "one\u2028line"}'),
    Example({"ids": [5], "label": []}, row=4),
)
HELD_OUT = (Example({"ids": [8, 8], "label": [0]}, row=2),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sides = {"train": TRAIN, "held_out": HELD_OUT}
    write(tmp_path / "examples", sides, FACTS, text_of=lambda each: each.text)
    return tmp_path / "examples"


def test_examples_come_back_as_they_were_with_their_rows(folder: Path) -> None:
    stored = open_prepared(folder, verify=True)
    for side, examples in ((stored.train, TRAIN), (stored.held_out, HELD_OUT)):
        assert len(side) == len(examples)
        for index, example in enumerate(examples):
            found = {name: column[index].tolist() for name, column in side.columns.items()}
            assert found == example.ids
        assert side.rows.tolist() == [example.row for example in examples]
        assert side.texts == tuple(example.text for example in examples)
        assert side.columns["ids"].lengths.tolist() == [len(e.ids["ids"]) for e in examples]
    assert stored.manifest.tokenizer_sha256 == FACTS.tokenizer_sha256
    assert stored.manifest.classes == FACTS.classes
    assert stored.census == FACTS.census


def test_examples_are_spread_evenly_over_all(folder: Path) -> None:
    train = open_prepared(folder).train
    assert train.spread(2) is train.spread(9) is train
    one = train.spread(1)
    assert (len(one), one.rows.tolist(), one.texts) == (1, [1], [TRAIN[0].text])
    assert one.columns["ids"][0].tolist() == [7, 70_000, 9]


def test_a_tokenizer_other_than_the_one_that_encoded_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("one", encoding="utf-8")
    check_tokenizer(file, hashlib.sha256(b"one").hexdigest())
    check_tokenizer(file, None)
    with pytest.raises(TextError, match="is not the tokenizer that encoded"):
        check_tokenizer(file, hashlib.sha256(b"two").hexdigest())


def test_numbers_are_mapped_as_narrow_as_they_can_be(folder: Path) -> None:
    stored = open_prepared(folder)
    assert isinstance(stored.train.columns["ids"].flat, np.memmap)
    assert stored.train.columns["ids"].flat.dtype == np.uint32
    assert stored.held_out.columns["ids"].flat.dtype == np.uint8
    assert stored.train.columns["ids"][0].dtype == np.int64


def test_column_without_any_number_can_be_kept(tmp_path: Path) -> None:
    bare = [Example({"ids": [1], "label": []}, row=0)]
    stored = write(tmp_path / "e", {"train": bare, "held_out": bare}, FACTS)
    assert stored.train.columns["label"][0].tolist() == []
    assert stored.train.texts is None


@pytest.mark.parametrize(
    "name",
    ["train.ids.npy", "train.ids.starts.npy", "held_out.rows.npy", "train.texts.jsonl"],
)
def test_flipped_byte_is_found_by_its_checksum(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(TextError, match=f"{name} does not match its checksum.*start a new run"):
        open_prepared(folder, verify=True)


@pytest.mark.parametrize("name", ["examples.json", "train.ids.npy", "held_out.rows.npy"])
def test_missing_or_truncated_file_is_refused_without_checking(folder: Path, name: str) -> None:
    refuses_half_and_none(folder, name)


@pytest.mark.parametrize(("key", "value"), [("format", 0), ("classes", 3), ("extra", 1)])
def test_manifest_of_another_shape_is_refused(folder: Path, key: str, value: Any) -> None:
    table = json.loads((folder / "examples.json").read_text())
    (folder / "examples.json").write_text(json.dumps(table | {key: value}))
    with pytest.raises(TextError, match=key):
        open_prepared(folder)


def test_interrupted_writing_is_not_taken_for_a_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pulled_plug(*args: object) -> None:
        raise KeyboardInterrupt

    folder, sides = tmp_path / "examples", {"train": TRAIN, "held_out": HELD_OUT}
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.disk.rename.os.replace", pulled_plug)
        with pytest.raises(KeyboardInterrupt):
            write(folder, sides, FACTS)
    with pytest.raises(TextError, match="damaged or incomplete"):
        open_prepared(folder)
    assert len(write(folder, sides, FACTS).train) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["examples"]


def test_side_without_examples_and_examples_of_two_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="no example is left on the side held_out: pass more"):
        write(tmp_path / "e", {"train": TRAIN, "held_out": ()}, FACTS)
    other = Example({"prompt": [1]}, row=9)
    with pytest.raises(TextError, match=r"row 9 has the columns prompt, but.*ids, label"):
        write(tmp_path / "e", {"train": [*TRAIN, other], "held_out": HELD_OUT}, FACTS)


@settings(max_examples=60)
@given(
    groups=st.lists(st.integers(0, 30), min_size=2, max_size=80),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 5),
)
def test_groups_stay_together_and_the_share_is_exact_to_one_group(
    groups: list[int], share: float, seed: int
) -> None:
    names = [f"group {number}" for number in groups]
    if len(set(names)) < 2:
        with pytest.raises(TextError, match="1 group cannot be divided"):
            choose_held_out(names, share, seed)
        return
    chosen = choose_held_out(names, share, seed)
    held_out = {name for name, out in zip(names, chosen, strict=True) if out}
    train = {name for name, out in zip(names, chosen, strict=True) if not out}
    assert held_out
    assert train
    assert not held_out & train
    largest = max(names.count(name) for name in names)
    assert abs(chosen.sum() - share * len(names)) <= largest


def test_neither_order_nor_other_rows_change_the_order_of_the_groups() -> None:
    names = [f"question {number}" for number in range(1000)]
    chosen = dict(zip(names, choose_held_out(names, 0.1, 7).tolist(), strict=True))
    assert sum(chosen.values()) == 100
    back = names[::-1]
    assert dict(zip(back, choose_held_out(back, 0.1, 7).tolist(), strict=True)) == chosen
    more = [*names, *(f"another {number}" for number in range(100))]
    later = dict(zip(more, choose_held_out(more, 0.1, 7).tolist(), strict=True))
    assert sum(later.values()) == 110
    moved = [name for name in names if later[name] != chosen[name]]
    assert len(moved) <= 20
    other = dict(zip(names, choose_held_out(names, 0.1, 8).tolist(), strict=True))
    assert other != chosen


@pytest.mark.parametrize("name", sorted(path.parts[-3] for path in OLD.glob("*/text/*.json")))
def test_a_folder_of_0_1_is_read_and_written_again_to_the_same_bytes(
    name: str, tmp_path: Path
) -> None:
    folder, copy = OLD / name / "text", tmp_path / "copy"
    stored = open_prepared(folder, verify=True)
    sides = {"train": stored.train, "held_out": stored.held_out}
    if stored.is_text:
        tokenizer = Tokenizer.load(OLD / name / "tokenizer.json")
        train, held_out = (
            tuple(Document("", tokenizer.decode(tokens(side, i))) for i in range(len(side)))
            for side in sides.values()
        )
        split = Split(train, held_out, str(stored.manifest.split_by))
        rewritten = prepare_documents(copy, parts_of(split), tokenizer)
    else:
        facts = Facts(
            tokenizer_sha256=str(stored.manifest.tokenizer_sha256),
            classes=stored.manifest.classes,
            census=stored.census,
        )
        examples = {
            key: [example_at(side, i) for i in range(len(side))] for key, side in sides.items()
        }
        keeps_rows = stored.train.texts is not None
        rewritten = write(
            copy, examples, facts, text_of=(lambda example: example.text) if keeps_rows else None
        )
    manifest = replace(rewritten.manifest, format=stored.manifest.format, read=stored.manifest.read)
    assert (manifest, rewritten.census) == (stored.manifest, stored.census)
    names = [file.name for file in folder.iterdir() if file.suffix != ".json"]
    assert len(names) >= 4
    assert all((copy / file).read_bytes() == (folder / file).read_bytes() for file in names)


def tokens(side: Examples, index: int) -> list[int]:
    return side.columns["text"][index].tolist()


def example_at(side: Examples, index: int) -> Example:
    columns = {name: column[index].tolist() for name, column in side.columns.items()}
    text = "{}" if side.texts is None else side.texts[index]
    return Example(columns, row=int(side.rows[index]), text=text)
