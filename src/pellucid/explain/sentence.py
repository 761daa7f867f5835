"""A sentence as the model reads it: its ids, its pieces, and what has to be said of them.

Comes in: a run and a sentence. Goes out: ids and pieces, or a refusal in plain words. It does not
know what becomes of them.

A decoder reads the begin of a text before it, an encoder what its tokenizer frames a text with; an
encoder-decoder reads the sentence with its encoder, and its decoder a target, or what it would
write itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch

from pellucid.errors import PellucidError, TextError
from pellucid.model import Transformer
from pellucid.runs import Run
from pellucid.runs.kinds import Kind, kind_of
from pellucid.text import Framing, Tokenizer

#: How many tokens an encoder-decoder writes where no target is given, at most.
_WRITTEN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Ids and pieces of the text that is predicted, and of its source where there is one.

    `masks` are the places of an encoder's masks. `notes` are sentences for the reader.
    """

    text: str
    kind: Kind
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    source_ids: tuple[int, ...] | None = None
    source_pieces: tuple[str, ...] = ()
    masks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def sentence_of(run: Run, text: str, target: str | None = None) -> Sentence:
    """A sentence for a run's model; `target` is what an encoder-decoder's decoder reads.

    Raises:
        PellucidError: it is empty, too long, or holds nothing that the tokenizer knows; or there
            is a target, and the model has no use for one.
    """
    model, tokenizer = run.model, run.tokenizer
    kind = kind_of(model)
    if not text.strip():
        raise PellucidError("the sentence is empty: write a few words to see inside the model")
    if target is not None and kind != "encoder-decoder":
        raise PellucidError(
            f"a target was given, but this model is {'an' if kind == 'encoder' else 'a'} {kind}: "
            "it reads one text; leave the target out"
        )
    ids, masks = _read(run, text, kind)
    _refuse_long(ids, model, "sentence")
    notes = _unknown(tokenizer, ids)
    spelling = Spelling(tokenizer)
    pieces = tuple(map(spelling.piece, ids))
    if kind != "encoder-decoder":
        return Sentence(text=text, kind=kind, ids=ids, pieces=pieces, masks=masks, notes=(*notes,))
    written = _written(model, tokenizer, ids) if target is None else _given(tokenizer, target)
    _refuse_long(written, model, "target")
    if target is None:
        notes = (*notes, "no target was given: the decoder reads what the model writes, greedily")
    return Sentence(
        text=text,
        kind=kind,
        ids=written,
        pieces=tuple(map(spelling.piece, written)),
        source_ids=ids,
        source_pieces=pieces,
        notes=notes,
    )


class Spelling:
    """Tokens as text: with the blank before a word, bytes of split characters as <0xE6>."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # WordPiece marks what goes on a word, all others what begins one
        decoder: dict[str, Any] | None = json.loads(tokenizer.to_json())["decoder"]
        self._blank_before = decoder is not None and decoder["type"] not in ("WordPiece", "Fuse")

    def piece(self, token_id: int) -> str:
        """What one token stands for."""
        tokenizer = self._tokenizer
        text = tokenizer.token(token_id)
        if "\N{REPLACEMENT CHARACTER}" in text:
            spelled = tokenizer.bytes_of(token_id) or b""
            return "".join(f"<0x{byte:02X}>" for byte in spelled) or text
        # at the beginning of a text a blank is dropped; behind itself it is not
        if self._blank_before and tokenizer.decode([token_id, token_id]) == f"{text} {text}":
            return f" {text}"
        return text


def _read(run: Run, text: str, kind: Kind) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tokenizer = run.tokenizer
    if run.model.classifier is not None:
        return tuple(Framing.for_classes(tokenizer).ids_of(text, called="sentence")), ()
    if kind == "decoder":
        return tuple(tokenizer.encode_prompt(text, called="sentence")), ()
    mask = tokenizer.roles().get("mask_token", "")
    framing = Framing(tokenizer, masks=bool(mask) and mask in text)
    ids = tuple(framing.ids_of(text, called="sentence"))
    masks = [place for place, token_id in enumerate(ids) if token_id == framing.mask_id]
    return ids, tuple(masks) if kind == "encoder" else ()


def _refuse_long(ids: tuple[int, ...], model: Transformer, called: str) -> None:
    if len(ids) > model.context_length:
        raise PellucidError(
            f"the {called} has {len(ids):,} tokens with what stands around it, but the model reads "
            f"at most {model.context_length:,}: shorten it"
        )


def _unknown(tokenizer: Tokenizer, ids: tuple[int, ...]) -> tuple[str, ...]:
    """What is to be said of characters that the tokenizer does not know.

    Raises:
        TextError: it knows none of them.
    """
    unknown = sum(token_id == tokenizer.unknown_id for token_id in ids)
    known = len(ids) - unknown - sum(t in (tokenizer.begin_id, tokenizer.end_id) for t in ids)
    if not known:
        raise TextError(
            "the tokenizer knows nothing in this sentence: write it in the characters that the "
            "model was trained on, or train one with byte pairs, to which no text is unknown"
        )
    if tokenizer.unknown_id is None or not unknown:
        return ()
    many = "1 token is" if unknown == 1 else f"{unknown} tokens are"
    name = tokenizer.token(tokenizer.unknown_id)
    return (
        f"{many} unknown to the tokenizer: the model reads {name} there, and nothing of what was "
        "written",
    )


def _given(tokenizer: Tokenizer, target: str) -> tuple[int, ...]:
    if not target:
        raise PellucidError("the target is empty: write some of it, or leave it out")
    return (*tokenizer.encode_prompt(target, called="target"), *tokenizer.closing)


@torch.inference_mode()
def _written(model: Transformer, tokenizer: Tokenizer, source: tuple[int, ...]) -> tuple[int, ...]:
    """What the model writes to a source, the likeliest token each time."""
    was = model.training
    model.eval()
    encoded = model.encode(torch.tensor([source], device=model.device))
    caches, ids = model.new_caches(), [tokenizer.begin_id]
    while len(ids) < min(_WRITTEN, model.context_length):
        step = torch.tensor([ids[-1:]], device=model.device)
        ids.append(int(model(step, caches, encoded=encoded)[0, -1].argmax()))
        if ids[-1] == tokenizer.end_id:
            break
    model.train(was)
    return tuple(ids)
