"""Which tokens begin and end a text: what files say, then ids, then names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models

from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer, tokenizer_from

SPECIAL = ["<pad>", "</s>", "<s>", "<|im_end|>"]


def words(folder: Path, *, special: list[str] = SPECIAL, settings: Any = None) -> Path:
    """A tokenizer of letters with these special tokens, and what its settings say."""
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    inner.add_special_tokens(special)
    file = folder / "tokenizer.json"
    file.write_text(inner.to_str())
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return file


def ends(tokenizer: Tokenizer) -> tuple[str, str]:
    return tokenizer.token(tokenizer.begin_id), tokenizer.token(tokenizer.end_id)


def test_names_are_what_is_left_when_nothing_tells(tmp_path: Path) -> None:
    assert ends(tokenizer_from(words(tmp_path))) == ("<s>", "</s>")


@pytest.mark.parametrize("token", ["<|im_end|>", {"content": "<|im_end|>", "lstrip": False}])
def test_settings_win(token: object, tmp_path: Path) -> None:
    file = words(tmp_path, settings={"bos_token": "<s>", "eos_token": token})
    assert ends(tokenizer_from(file, begin_id=2, end_id=3)) == ("<s>", "<|im_end|>")


def test_what_settings_do_not_say_is_taken_from_the_ids(tmp_path: Path) -> None:
    file = words(tmp_path, settings={"bos_token": None, "eos_token": "</s>"})
    assert ends(tokenizer_from(file, begin_id=2, end_id=5)) == ("<pad>", "</s>")  # T5


def test_ids_of_ordinary_tokens_tell_nothing(tmp_path: Path) -> None:
    assert ends(tokenizer_from(words(tmp_path), begin_id=0, end_id=1)) == ("<s>", "</s>")
    assert ends(tokenizer_from(words(tmp_path), begin_id=50_256, end_id=50_256)) == ("<s>", "</s>")


def test_an_end_that_is_told_alone_leaves_the_begin_to_names(tmp_path: Path) -> None:
    file = words(tmp_path, settings={"eos_token": "<|im_end|>"})
    assert ends(tokenizer_from(file)) == ("<s>", "<|im_end|>")


def test_an_end_that_is_told_and_nothing_else_is_the_begin_too(tmp_path: Path) -> None:
    file = words(tmp_path, special=["<|im_end|>"], settings={"eos_token": "<|im_end|>"})
    assert ends(tokenizer_from(file)) == ("<|im_end|>", "<|im_end|>")


def test_a_name_without_a_token_tells_nothing(tmp_path: Path) -> None:
    file = words(tmp_path, settings={"bos_token": "<begin>", "eos_token": "<end>"})
    assert ends(tokenizer_from(file)) == ("<s>", "</s>")


def test_bert_says_them_by_other_words(tmp_path: Path) -> None:
    special = ["[CLS]", "[SEP]", "[MASK]"]
    file = words(tmp_path, special=special, settings={"cls_token": "[CLS]", "sep_token": "[SEP]"})
    tokenizer = tokenizer_from(file)
    assert ends(tokenizer) == ("[CLS]", "[SEP]")
    assert tokenizer.roles() == {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }


def test_what_was_told_is_kept(tmp_path: Path) -> None:
    tokenizer = tokenizer_from(words(tmp_path), begin_id=2, end_id=5)
    (tmp_path / "run").mkdir()
    tokenizer.save(tmp_path / "run" / "tokenizer.json")
    assert ends(Tokenizer.load(tmp_path / "run" / "tokenizer.json")) == ends(tokenizer)


def test_a_tokenizer_whose_names_tell_is_saved_as_one_file(tmp_path: Path) -> None:
    tokenizer = tokenizer_from(words(tmp_path))
    (tmp_path / "run").mkdir()
    tokenizer.save(tmp_path / "run" / "tokenizer.json")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("content", ["{", "[]", '"x"'])
def test_broken_settings_are_refused(content: str, tmp_path: Path) -> None:
    file = words(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(TextError, match=r"config\.json(: is not valid JSON| must be an object)"):
        tokenizer_from(file)


@pytest.mark.parametrize(
    ("begins", "ends_too", "expected"),
    [(True, False, [4, 0, 1]), (True, True, [4, 0, 1, 3]), (False, True, [0, 1, 3])],
)
def test_a_published_file_says_what_is_put_around_a_text(
    begins: bool, ends_too: bool, expected: list[int], tmp_path: Path
) -> None:
    tokenizer = tokenizer_from(words(tmp_path))
    text = tokenizer.to_published_json(add_begin=begins, add_end=ends_too)
    assert tokenizers.Tokenizer.from_str(text).encode("ab").ids == expected
    assert tokenizer.encode("ab") == [0, 1]
