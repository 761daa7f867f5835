"""The tokens around a text that an encoder reads, and which of its words are masks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import TextError
from pellucid.tokenizers import Framing, Tokenizer, tokenizer_from, train_bytes
from support.kinds import write_bert_tokenizer


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return write_bert_tokenizer(tmp_path_factory.mktemp("bert"))


def names(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token(token_id) for token_id in ids]


def with_post_processor(folder: Path, tokenizer: Tokenizer, around: list[str]) -> Tokenizer:
    """The tokenizer of a file that sets the frame of a text, "$A"."""
    table = json.loads(tokenizer.to_json())
    ids = {name: tokenizer.id_of(name) for name in around if name != "$A"}
    single: list[Any] = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if name == "$A"
        else {"SpecialToken": {"id": name, "type_id": 0}}
        for name in around
    ]
    table["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")
    return tokenizer_from(folder / "tokenizer.json")


def test_without_a_word_in_the_file_a_text_is_framed_as_a_document_is(bert: Tokenizer) -> None:
    assert names(bert, Framing(bert).ids_of("the cat")) == ["[CLS]", "the", "cat", "[SEP]"]
    plain = train_bytes()
    assert Framing(plain).ids_of("the cat") == plain.encode_document("the cat")


def test_what_the_file_says_goes_around_a_text(bert: Tokenizer, tmp_path: Path) -> None:
    ends_only = with_post_processor(tmp_path, bert, ["$A", "[SEP]"])
    assert names(ends_only, Framing(ends_only).ids_of("the cat")) == ["the", "cat", "[SEP]"]
    other = with_post_processor(tmp_path, bert, ["[PAD]", "$A", "[CLS]"])
    framed = names(other, Framing(other, masks=True).ids_of("[MASK] cat"))
    assert framed == ["[PAD]", "[MASK]", "cat", "[CLS]"]


def test_a_mask_is_a_mask_only_where_masks_are_asked_for(bert: Tokenizer) -> None:
    masks, plain = Framing(bert, masks=True), Framing(bert)
    assert masks.mask == plain.mask == "[MASK]"
    assert masks.ids_of("the [MASK].").count(bert.id_of("[MASK]") or -1) == 1
    assert bert.id_of("[MASK]") not in plain.ids_of("the [MASK].")


@pytest.mark.parametrize("masks", [True, False])
def test_other_special_tokens_that_a_text_spells_are_text(bert: Tokenizer, masks: bool) -> None:
    inner_ids = Framing(bert, masks=masks).ids_of("the [SEP] cat [CLS] [PAD]")[1:-1]
    assert not {bert.id_of(name) for name in ("[SEP]", "[CLS]", "[PAD]")} & set(inner_ids)


def test_a_tokenizer_without_a_mask_is_refused_where_masks_are_asked_for(tmp_path: Path) -> None:
    maskless = write_bert_tokenizer(tmp_path, masks=False)
    assert Framing(maskless).mask_id is None
    for tokenizer in (maskless, train_bytes()):
        with pytest.raises(TextError, match=r"\[MASK\] or <mask>"):
            Framing(tokenizer, masks=True)


def test_half_a_character_is_refused_by_its_place(bert: Tokenizer) -> None:
    with pytest.raises(TextError, match=r"the source is not text: '\\udce9' at offset 3"):
        Framing(bert).ids_of("caf\udce9", name="source")


@settings(max_examples=60)
@given(text=st.text(max_size=20))
def test_a_text_without_masks_is_framed_the_same_either_way(text: str) -> None:
    tokenizer = train_bytes()
    assert Framing(tokenizer).ids_of(text) == tokenizer.encode_document(text)


def test_a_text_that_is_cut_keeps_what_frames_it(bert: Tokenizer) -> None:
    framing = Framing(bert)
    uncut_ids = framing.ids_of("the cat sat on mat")
    assert framing.ids_within("the cat sat on mat", 7) == (uncut_ids, False)
    cut = framing.ids_within("the cat sat on mat", 5)
    assert cut.truncated
    assert names(bert, cut.ids) == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    with pytest.raises(TextError, match="the source has a frame of 2 tokens"):
        framing.ids_within("the cat", 2, name="source")


@given(text=st.text(min_size=1), longest=st.integers(3, 40))
def test_a_text_is_never_longer_than_was_asked_for(text: str, longest: int) -> None:
    tokenizer = train_bytes()
    uncut_ids = tokenizer.encode_document(text)
    ids, truncated = Framing.for_classes(tokenizer).ids_within(text, longest)
    assert len(ids) == min(longest, len(uncut_ids))
    assert truncated is (len(uncut_ids) > longest)
    assert ids == ([*uncut_ids[: longest - 1], uncut_ids[-1]] if truncated else uncut_ids)
