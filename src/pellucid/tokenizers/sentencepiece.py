"""BPE tokenizers of SentencePiece, and of llama2.c, which exports them.

    tokenizer.model    SentencePiece's own file
    tokenizer.bin      llama2.c's: the longest piece, then score, length and bytes of each

Such a BPE has no list of merges: it merges the two neighbours whose union is the piece with the
highest score. So each split of a piece into two pieces is a merge, ranked by the score.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import decoders, models, normalizers

from pellucid.errors import TextError
from pellucid.reader import LARGE, read_bytes
from pellucid.tokenizers.tokenizer import Tokenizer

_BLANK = "\u2581"
_BPE = 2
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class Piece:
    """A token: its text, its score and its kind."""

    text: str
    score: float
    kind: int


def sentencepiece_from(file: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a SentencePiece model.

    Raises:
        TextError: the file is no SentencePiece model, or not a BPE.
    """
    try:
        pieces, settings = _read_model(read_bytes(file, limit=LARGE, refusal=TextError))
    except (ValueError, LookupError, struct.error) as error:
        raise TextError(f"{file} is not a SentencePiece model: {error}") from None
    if not pieces:
        raise TextError(f"{file} is not a SentencePiece model: it has no pieces")
    if settings.get("model_type") != _BPE:
        raise TextError(
            f"{file} is no BPE, and pellucid reads no other kind of SentencePiece model: use its "
            "tokenizer.json"
        )
    return _build_bpe(file, pieces, prefix=settings.get("add_dummy_prefix", 1) == 1)


def llama2c_tokenizer_from(file: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer in a llama2.c file; only its model states the vocabulary size.

    Raises:
        TextError: the file is no tokenizer of llama2.c, or has another size.
    """
    data = read_bytes(file, limit=LARGE, refusal=TextError)
    pieces: list[Piece] = []
    place = 4
    try:
        while place < len(data):
            score, length = struct.unpack_from("<fi", data, place)
            place += 8
            if not 0 <= length <= len(data) - place:
                raise ValueError(f"a token of {length} bytes")
            text = data[place : place + length].decode("utf-8")
            place += length
            pieces.append(_as_piece(len(pieces), text, score))
    except (ValueError, struct.error) as error:
        raise TextError(
            f"{file} is not a tokenizer of llama2.c: {error} at byte {place:,}"
        ) from None
    if len(pieces) != vocab_size:
        raise TextError(
            f"{file} has {len(pieces):,} tokens, but the model has {vocab_size:,}: use the "
            "tokenizer of this model"
        )
    return Tokenizer(_build_bpe(file, pieces, prefix=True))


def _as_piece(index: int, text: str, score: float) -> Piece:
    """Tokens 0 to 2 are unknown, begin and end; llama2.c pads the last two with line ends."""
    if index < 3:
        return Piece(("<unk>", "<s>", "</s>")[index], score, (_UNKNOWN, _CONTROL, _CONTROL)[index])
    is_byte = len(text) == 6 and text.startswith("<0x") and text.endswith(">")
    return Piece(text.replace(" ", _BLANK), score, _BYTE if is_byte else _NORMAL)


def _build_bpe(file: Path, pieces: list[Piece], *, prefix: bool) -> tokenizers.Tokenizer:
    vocabulary = {piece.text: index for index, piece in enumerate(pieces)}
    if len(vocabulary) != len(pieces):
        raise TextError(f"{file} has {len(pieces) - len(vocabulary)} tokens twice")
    unknown = next((piece.text for piece in pieces if piece.kind == _UNKNOWN), None)
    bpe: Any = models.BPE(
        vocab=vocabulary,
        merges=_merges(pieces, vocabulary),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=any(piece.kind == _BYTE for piece in pieces),
    )
    inner = tokenizers.Tokenizer(bpe)
    blank = normalizers.Replace(" ", _BLANK)
    inner.normalizer = (
        normalizers.Sequence([normalizers.Prepend(_BLANK), blank]) if prefix else blank
    )
    steps: list[Any] = [decoders.Replace(_BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    inner.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    special = [piece.text for piece in pieces if piece.kind in (_UNKNOWN, _CONTROL)]
    cast("Any", inner).add_special_tokens(special)
    return inner


def _merges(pieces: list[Piece], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Every split of a piece into two pieces, the highest score first."""
    splits = [
        (-piece.score, vocabulary[head], vocabulary[tail], head, tail)
        for piece in pieces
        if piece.kind in (_NORMAL, _USER)
        for cut in range(1, len(piece.text))
        if (head := piece.text[:cut]) in vocabulary and (tail := piece.text[cut:]) in vocabulary
    ]
    return [(head, tail) for *_, head, tail in sorted(splits)]


def _read_model(data: bytes) -> tuple[list[Piece], dict[str, int]]:
    """The pieces and the relevant settings of a model in Protocol Buffers.

    Field 1 of the model is a piece (1 text, 2 score, 3 kind). Field 2 has the settings of the
    trainer (3 kind of model), field 3 the normaliser's (3 whether to add a blank at the start).
    """
    pieces: list[Piece] = []
    settings: dict[str, int] = {"model_type": 1}
    for field, value in _fields(data):
        if field == 1:
            parts = dict(_fields(_bytes(value)))
            score = struct.unpack("<f", _bytes(parts[2]))[0] if 2 in parts else 0.0
            kind = parts.get(3, _NORMAL)
            pieces.append(Piece(_bytes(parts[1]).decode("utf-8"), score, cast("int", kind)))
        elif field in (2, 3):
            name = "model_type" if field == 2 else "add_dummy_prefix"
            parts = dict(_fields(_bytes(value)))
            if isinstance(number := parts.get(3), int):
                settings[name] = number
    return pieces, settings


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number in place of bytes")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers, and whole numbers or bytes."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind} at byte {place:,}")
        if place + length > len(data):
            raise ValueError("it is cut off")
        yield tag >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
