"""A sentence as the model reads it: its ids, its pieces, and notes on them.

A decoder reads a begin-of-text token before it, an encoder the special tokens of its tokenizer. The
encoder of an encoder-decoder reads the sentence; its decoder reads the target, or else the text
that the model itself generates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pellucid.catalogue import message
from pellucid.errors import PellucidError, TextError
from pellucid.explain.losses.types import ExampleLoss
from pellucid.generation import Reader
from pellucid.model import Transformer
from pellucid.runs import Run
from pellucid.saved_runs.requirements import Kind, kind_of
from pellucid.tokenizers import Framing, Tokenizer, unread

#: How many tokens an encoder-decoder generates if there is no target, at most.
_MAX_TARGET = 32
#: How many unknown stretches are named one by one.
_MAX_QUOTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Ids and pieces of the text that the model predicts, and of its source if it has one.

    `masks` are the places of an encoder's masks. `notes` are sentences for you. `loss` is what
    the loss is made of; None leaves it to the trace. `is_example` says whether it is the loss of
    the run's objective on one of its examples, and
    `loss_note` why not. `companion` is the other text in that loss.

    Attributes:
        text: the sentence.
        kind: of the model: decoder, encoder or encoder-decoder.
        ids: token ids.
        pieces: the text of each token.
        source_ids: token ids of the encoder; None without one.
        source_pieces: the text of each of them.
    """

    text: str
    kind: Kind
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    source_ids: tuple[int, ...] | None = None
    source_pieces: tuple[str, ...] = ()
    masks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    loss: ExampleLoss | None = None
    companion: Sentence | None = None
    is_example: bool = False
    loss_note: str = ""


def encode_sentence(run: Run, text: str, target: str | None = None) -> Sentence:
    """A sentence for a run's model; `target` is what an encoder-decoder's decoder reads.

    Raises:
        PellucidError: it is empty, too long, holds nothing that the tokenizer knows or something
            that it drops; or there is a target, and the model has no use for one.
    """
    model, tokenizer = run.model, run.require_tokenizer()
    kind = kind_of(model)
    if not text.strip():
        raise PellucidError(message("sentence.the-sentence-is-empty-write"))
    if target is not None and kind != "encoder-decoder":
        raise PellucidError(
            message(f"sentence.no-target-for-{'encoder' if kind == 'encoder' else 'decoder'}")
        )
    ids, masks = _read(run, text, kind)
    refuse_long(ids, model, "sentence")
    mask = "" if kind == "decoder" else tokenizer.roles().get("mask_token", "")
    read = text.replace(mask, " ") if mask else text
    notes = _unread(tokenizer, read, ids, "sentence")
    spelling = Spelling(tokenizer)
    pieces = tuple(map(spelling.piece, ids))
    if kind != "encoder-decoder":
        return Sentence(text=text, kind=kind, ids=ids, pieces=pieces, masks=masks, notes=notes)
    target_ids = (
        _generate_target(model, tokenizer, ids)
        if target is None
        else _encode_target(tokenizer, target)
    )
    refuse_long(target_ids, model, "target")
    if target is None:
        notes += (message("sentence.no-target-was-given-the"),)
    else:
        notes += _unread(tokenizer, target, target_ids, "target")
    return Sentence(
        text=text,
        kind=kind,
        ids=target_ids,
        pieces=tuple(map(spelling.piece, target_ids)),
        source_ids=ids,
        source_pieces=pieces,
        notes=notes,
    )


class Spelling:
    """Tokens as text: with the blank before a word, bytes of split characters as <0xE6>."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size

    def any_piece(self, token_id: int) -> str:
        """The text of one token; a row of the vocabulary without a token as its number."""
        return self.piece(token_id) if token_id < self.vocab_size else f"#{token_id}"

    def piece(self, token_id: int) -> str:
        """The text of one token."""
        tokenizer = self._tokenizer
        text = tokenizer.token(token_id)
        if "\N{REPLACEMENT CHARACTER}" in text:
            token_bytes = tokenizer.bytes_of(token_id) or b""
            return "".join(f"<0x{byte:02X}>" for byte in token_bytes) or text
        # at the beginning of a text a blank is dropped; behind itself it is not
        if (
            tokenizer.marks_word_begins
            and tokenizer.decode([token_id, token_id]) == f"{text} {text}"
        ):
            return f" {text}"
        return text


def _read(run: Run, text: str, kind: Kind) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tokenizer = run.require_tokenizer()
    if run.model.classifier is not None:
        return tuple(Framing.for_classes(tokenizer).ids_of(text, name=message("word.sentence"))), ()
    if kind == "decoder":
        return tuple(tokenizer.encode_prompt(text, name=message("word.sentence"))), ()
    mask = tokenizer.roles().get("mask_token", "")
    framing = Framing(tokenizer, masks=bool(mask) and mask in text)
    ids = tuple(framing.ids_of(text, name=message("word.sentence")))
    masks = [place for place, token_id in enumerate(ids) if token_id == framing.mask_id]
    return ids, tuple(masks) if kind == "encoder" else ()


def refuse_long(ids: tuple[int, ...], model: Transformer, text_name: str) -> None:
    """Refuse a text that the model cannot read whole.

    Raises:
        PellucidError: it is longer than the context.
    """
    if len(ids) > model.context_length:
        raise PellucidError(
            message(
                "sentence.the-has-tokens-with-its",
                text_name=text_name,
                n_ids=len(ids),
                context_length=model.context_length,
            )
        )


def _unread(
    tokenizer: Tokenizer, text: str, ids: tuple[int, ...], text_name: str
) -> tuple[str, ...]:
    """Notes on the characters that the tokenizer does not know.

    Raises:
        TextError: it knows none of them, or drops some without a token in their place: the model
            would silently read another text.
    """
    special_ids = {tokenizer.unknown_id, tokenizer.begin_id, tokenizer.end_id}
    if special_ids.issuperset(ids):
        raise TextError(message("sentence.the-tokenizer-knows-nothing-in", text_name=text_name))
    unknown, dropped = unread(tokenizer, text)
    if dropped:
        raise TextError(
            message(
                "sentence.the-tokenizer-drops-without-a",
                quote_segments=_quote_segments(dropped),
                text_name=text_name,
            )
        )
    if not unknown or tokenizer.unknown_id is None:
        return ()
    name = tokenizer.token(tokenizer.unknown_id)
    place_text = message("word.its-place") if len(unknown) == 1 else message("word.their-places")
    return (
        message(
            "sentence.the-tokenizer-does-not-know",
            quote_segments=_quote_segments(unknown),
            name=name,
            place_text=place_text,
        ),
    )


def _quote_segments(segments: tuple[str, ...]) -> str:
    """A few of them, quoted; how many more there are."""
    quoted = [repr(segment) for segment in segments[:_MAX_QUOTED]]
    n_omitted = len(segments) - len(quoted)
    return ", ".join(quoted) + (
        message("sentence.and-more", n_omitted=n_omitted) if n_omitted else ""
    )


def _encode_target(tokenizer: Tokenizer, target: str) -> tuple[int, ...]:
    if not target:
        raise PellucidError(message("sentence.the-target-is-empty-write"))
    return (*tokenizer.encode_prompt(target, name=message("word.target")), *tokenizer.closing)


@torch.inference_mode()
def _generate_target(
    model: Transformer, tokenizer: Tokenizer, source: tuple[int, ...]
) -> tuple[int, ...]:
    """The text that the model generates for a source, the likeliest token each time."""
    was_training = model.training
    model.eval()
    encoded = model.encode(torch.tensor([source], device=model.device))
    reader, ids = Reader(model, encoded=encoded), [tokenizer.begin_id]
    while len(ids) < min(_MAX_TARGET, model.context_length):
        text = torch.tensor([ids], device=model.device)
        ids.append(int(reader.next_logits(text)[0].argmax()))
        if ids[-1] == tokenizer.end_id:
            break
    model.train(was_training)
    return tuple(ids)
