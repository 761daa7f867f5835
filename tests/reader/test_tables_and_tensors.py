"""Tables, tensors and tokenizers from outside: what pellucid reads, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from pellucid.errors import CheckpointError, PellucidError, TextError
from pellucid.reader import MOST_TOKENS, csv_rows, open_tensors, parse_tokenizer, read_tokenizer
from pellucid.reader import read_tensors as tensors_of
from support.hostile import bounded_memory


def test_rows_of_a_table_have_the_numbers_of_their_lines() -> None:
    rows = csv_rows(["a,b\n", '"1\n', '",2\n'], "file", ",")
    assert list(rows) == [(1, ["a", "b"]), (3, ["1\n", "2"])]


@pytest.mark.parametrize("lines", [["a,b\n", '"x"y,2\n'], ["a,b\n", '"never closed\n']])
def test_a_broken_table_is_refused_with_its_line(lines: list[str]) -> None:
    with pytest.raises(TextError, match="file, line 2: cannot be read"):
        list(csv_rows(lines, "file", ",", refusal=TextError))


def test_tensors_come_by_their_names(tmp_path: Path) -> None:
    import numpy as np

    safetensors.numpy.save_file({"a": np.ones((2, 3), np.float32)}, tmp_path / "x")
    assert {name: tuple(t.shape) for name, t in tensors_of(tmp_path / "x").items()} == {"a": (2, 3)}


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x08" + b"\0" * 7 + b"{}      x"])
def test_tensors_that_are_not_whole_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointError, match="x is not a whole safetensors file"):
        open_tensors(tmp_path / "x", refusal=CheckpointError)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_tensors_in_a_pipe_or_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(PellucidError, match="is a pipe"):
        open_tensors(tmp_path / "x")
    with pytest.raises(PellucidError, match="is a device"):
        open_tensors(Path("/dev/zero"))


def table() -> dict[str, Any]:
    """A tokenizer of a few tokens, as its file describes it."""
    vocab = {"<b>": 0, "a": 1, "b": 2, "ab": 3}
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b")], unk_token="<b>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="<b> $A", pair="$A $B", special_tokens=[("<b>", 0)]
    )
    inner.add_special_tokens(["<b>"])
    return json.loads(inner.to_str())


def changed(*path: str | int, to: object) -> str:
    full_table = table()
    part: Any = full_table
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = to
    return json.dumps(full_table)


WORD_PIECE = {
    "type": "WordPiece",
    "vocab": {"a": 0},
    "unk_token": "?",
    "continuing_subword_prefix": "##",
}


def test_a_tokenizer_that_passes_is_the_library_s_own(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(table()))
    assert read_tokenizer(tmp_path / "tokenizer.json").encode("ab").ids == [0, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "too deep"),
        ("[]", "must be an object"),
        ("{}", "expected an object model"),
        (changed("model", to=3), "expected an object model, was 3"),
        (changed("model", "vocab", to=None), "expected a vocabulary"),
        (changed("model", "vocab", "a", to=10**12), "'a' has the id 1000000000000"),
        (changed("model", "vocab", "a", to=2**31), "'a' has the id 2147483648"),
        (changed("model", "vocab", "a", to=-1), "'a' has the id -1"),
        (changed("model", "vocab", "a", to=True), "'a' has the id True"),
        (changed("added_tokens", to={}), "expected a list added_tokens"),
        (changed("added_tokens", 0, "id", to=10**12), "added_tokens has the entry"),
        (changed("added_tokens", 0, to=1), "added_tokens has the entry 1"),
        (changed("model", "merges", to=[["a", "x"]]), "is not a tokenizer"),
        (changed("model", "merges", to="a b"), "is not a tokenizer"),
        (changed("model", "type", to="Nope"), "is not a tokenizer"),
        (changed("model", "continuing_subword_prefix", to="é"), "the prefix"),
        (changed("post_processor", "special_tokens", to={}), "puts '<b>' around texts"),
        (changed("padding", to={"pad_to_multiple_of": 2**40}), "padding.pad_to_multiple_of"),
        (changed("truncation", to={"max_length": -1}), "truncation.max_length"),
        (changed("pre_tokenizer", to={"type": "Split"}), "is not a tokenizer"),
        (changed("model", to={"type": "WordLevel", "vocab": {}, "unk_token": "?"}), "UNK"),
        (changed("model", to=WORD_PIECE | {"max_input_chars_per_word": 2**60}), "UNK"),
        (changed("post_processor", to={"type": "Sequence", "processors": 5}), "is not a tokenizer"),
    ],
)
def test_a_tokenizer_that_the_library_would_not_survive_is_refused(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        parse_tokenizer(text, "tokenizer.json", refusal=TextError)


def test_the_ids_of_a_tokenizer_have_a_bound_that_is_far_above_any_known() -> None:
    text = changed("model", "vocab", "a", to=MOST_TOKENS)
    with pytest.raises(PellucidError, match=f"from 0 to {MOST_TOKENS - 1:,}"):
        parse_tokenizer(text, "tokenizer.json")


def test_a_tokenizer_that_fills_texts_up_to_millions_takes_no_gigabytes() -> None:
    padding = {
        "strategy": {"Fixed": 2**23},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<b>",
    }
    with bounded_memory():
        inner = parse_tokenizer(changed("padding", to=padding), "tokenizer.json")
    assert inner.encode("ab").ids == [0, 3]


def test_a_panic_of_the_library_is_a_refusal() -> None:
    # a stride as long as the text that is left: seen by the library alone
    limits = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 2}
    with pytest.raises(PellucidError, match=r"its library failed on it .*stride"):
        parse_tokenizer(changed("truncation", to=limits), "tokenizer.json")


def test_reading_a_config_loads_neither_torch_nor_the_tokenizers() -> None:
    code = "import sys, pellucid.reader; print({'torch', 'tokenizers'} & set(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"
