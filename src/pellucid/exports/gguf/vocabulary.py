"""A tokenizer as metadata of a GGUF file: llama.cpp then splits texts into the same tokens.

gpt2    byte-level BPE; characters too, as BPE that makes each character of its bytes
llama   SentencePiece's BPE
bert    WordPiece, lower-cased
t5      Unigram
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pellucid.errors import TextError
from pellucid.reader import parse_json_table
from pellucid.tokenizers import Tokenizer
from pellucid.tokenizers.tokenizer import symbol_of_byte

Table = Mapping[str, Any]

#: The regular expressions with which published tokenizers cut texts, by llama.cpp's name for them.
_CUTS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt-2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": "llama-bpe",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": "qwen2",
}
_MARK = "\u2581"  # SentencePiece's mark of white space


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of a file.

    Attributes:
        model: llama.cpp's name of the kind.
        tokens: one text for each id.
        types: of each token, by the names of the library.
        pre: how texts are cut before tokens; "" if the kind knows.
        merges: of a BPE, each as "head tail".
        scores: of SentencePiece's kinds.
        space_prefix: whether a text gets a blank in front; None if the kind has no such thing.
        charsmap: Unigram's normalisation of characters.
        note: what differs from the tokenizer, as a sentence; "" if nothing does.
    """

    model: str
    tokens: tuple[str, ...]
    types: tuple[str, ...]
    pre: str = ""
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    space_prefix: bool | None = None
    charsmap: bytes = b""
    note: str = ""


def vocabulary_for(tokenizer: Tokenizer, rows: int) -> Vocabulary:
    """The tokens of a file for a tokenizer.

    Args:
        tokenizer: the tokenizer.
        rows: of the embedding; ids without a token get one that no text has.

    Raises:
        TextError: llama.cpp has no tokenizer of this kind; names what it lacks.
    """
    table = parse_json_table(tokenizer.to_json(), "the tokenizer")
    kind: str = table["model"]["type"]
    match kind:
        case "BPE":
            vocabulary = _bpe(table, tokenizer, rows)
        case "WordPiece":
            vocabulary = _word_piece(table, tokenizer, rows)
        case "Unigram":
            vocabulary = _unigram(table, tokenizer, rows)
        case _:
            raise TextError(
                f"the tokenizer is of the kind {kind}, which llama.cpp does not have: it has "
                "byte-level BPE, characters, SentencePiece's BPE, Unigram and lower-cased "
                "WordPiece; leave --format gguf out, or train with another tokenizer, such as "
                "--set text.tokenizer.kind=BytePairs"
            )
    return vocabulary


def add_vocabulary(writer: Any, library: Any, vocabulary: Vocabulary) -> None:
    """Write the tokens.

    Args:
        writer: of the library `gguf`.
        library: `gguf`.
        vocabulary: by `vocabulary_for`.
    """
    writer.add_tokenizer_model(vocabulary.model)
    if vocabulary.pre:
        writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([int(getattr(library.TokenType, name)) for name in vocabulary.types])
    if vocabulary.scores:
        writer.add_token_scores(list(vocabulary.scores))
    if vocabulary.model == "gpt2":
        # a list without an entry has no type, and llama.cpp wants the key
        writer.add_token_merges(list(vocabulary.merges) or [" "])
    if vocabulary.space_prefix is not None:
        writer.add_add_space_prefix(vocabulary.space_prefix)
    if vocabulary.charsmap:
        writer.add_precompiled_charsmap(vocabulary.charsmap)


def _bpe(table: Table, tokenizer: Tokenizer, rows: int) -> Vocabulary:
    parts = _pre_tokenizers(table)
    if any(part["type"] == "ByteLevel" for part in parts):
        return _byte_level(table, tokenizer, rows, parts)
    if table["model"].get("byte_fallback"):
        return _sentencepiece(table, tokenizer, rows)
    if not table["model"]["merges"] and not parts:
        return _characters(table, tokenizer, rows)
    raise TextError(
        "the tokenizer is a BPE over neither bytes nor SentencePiece's pieces, which llama.cpp "
        "does not have: leave --format gguf out, or train with another tokenizer"
    )


def _byte_level(
    table: Table, tokenizer: Tokenizer, rows: int, parts: list[dict[str, Any]]
) -> Vocabulary:
    if table["normalizer"] is not None:
        raise TextError(
            "the tokenizer normalises texts before its byte-level BPE, which llama.cpp does not "
            "do: leave --format gguf out"
        )
    merges = tuple(f"{head} {tail}" for head, tail in tokenizer.merges())
    tokens, types = _tokens(table["model"]["vocab"], table, rows)
    return Vocabulary(
        model="gpt2", tokens=tokens, types=types, pre=_cut_name(parts, merges), merges=merges
    )


def _cut_name(parts: list[dict[str, Any]], merges: tuple[str, ...]) -> str:
    """llama.cpp's name for the way in which texts are cut."""
    if not merges:
        return "gpt-2"  # bytes alone: no cut changes anything
    if any(part.get("add_prefix_space") for part in parts):
        raise TextError(
            "the tokenizer puts a blank in front of a text, which llama.cpp does not do for this "
            "kind: leave --format gguf out"
        )
    splits = [part["pattern"].get("Regex", "") for part in parts if part["type"] == "Split"]
    if not splits and all(part.get("use_regex", True) for part in parts):
        return "gpt-2"
    if len(splits) == 1 and splits[0] in _CUTS and len(parts) == 2:
        return _CUTS[splits[0]]
    raise TextError(
        f"the tokenizer cuts texts in a way that llama.cpp has no name for ({splits or parts}): "
        "leave --format gguf out"
    )


def _characters(table: Table, tokenizer: Tokenizer, rows: int) -> Vocabulary:
    """Each character as a token that merges make of its bytes."""
    symbols = symbol_of_byte()
    vocabulary: dict[str, int] = {}
    merges: dict[tuple[str, str], None] = {}
    special = {token["content"] for token in table["added_tokens"]}
    characters: dict[str, int] = table["model"]["vocab"]
    for token, token_id in characters.items():
        if token in special:
            continue
        byte_symbols = [symbols[byte] for byte in token.encode()]
        vocabulary["".join(byte_symbols)] = token_id
        for place in range(1, len(byte_symbols)):
            merges["".join(byte_symbols[:place]), byte_symbols[place]] = None
    tokens, types = _tokens(vocabulary, table, rows)
    return Vocabulary(
        model="gpt2",
        tokens=tokens,
        types=types,
        pre="gpt-2",
        merges=tuple(f"{head} {tail}" for head, tail in merges),
        note="llama.cpp leaves out a character that the tokenizer does not know, where pellucid "
        f"reads {tokenizer.token(tokenizer.unknown_id or 0)}.",
    )


def _sentencepiece(table: Table, tokenizer: Tokenizer, rows: int) -> Vocabulary:
    """The score of a token is minus the rank of the merge that makes it."""
    vocabulary: dict[str, int] = table["model"]["vocab"]
    tokens, types = _tokens(vocabulary, table, rows)
    ranks: dict[str, int] = {}
    for (head, tail), rank in tokenizer.merges().items():
        ranks.setdefault(head + tail, rank)
    scores = tuple(-float(ranks.get(token, 0)) for token in tokens)
    return Vocabulary(
        model="llama",
        tokens=tokens,
        types=types,
        scores=scores,
        space_prefix=_has_space_prefix(table),
    )


def _has_space_prefix(table: Table) -> bool:
    """Whether a text gets SentencePiece's blank in front."""
    normalizer: dict[str, Any] = table["normalizer"] or {}
    steps: list[dict[str, Any]] = normalizer.get("normalizers", [normalizer])
    marks = any(step.get("type") == "Prepend" for step in steps)
    return marks or any(
        part["type"] == "Metaspace" and part.get("prepend_scheme") != "never"
        for part in _pre_tokenizers(table)
    )


def _word_piece(table: Table, tokenizer: Tokenizer, rows: int) -> Vocabulary:
    normalizer: dict[str, Any] = table["normalizer"] or {}
    if normalizer.get("type") != "BertNormalizer" or not normalizer.get("lowercase"):
        raise TextError(
            "the tokenizer is a WordPiece that keeps capitals, and llama.cpp lower-cases texts: "
            "leave --format gguf out"
        )
    special = {token["content"] for token in table["added_tokens"]}
    vocabulary = {
        token if token in special else _word_piece_text(token): token_id
        for token, token_id in table["model"]["vocab"].items()
    }
    tokens, types = _tokens(vocabulary, table, rows)
    return Vocabulary(model="bert", tokens=tokens, types=types)


def _word_piece_text(token: str) -> str:
    """llama.cpp marks the begin of a word, where WordPiece marks its continuation."""
    return token[2:] if token.startswith("##") else f"{_MARK}{token}"


def _unigram(table: Table, tokenizer: Tokenizer, rows: int) -> Vocabulary:
    pieces: list[tuple[str, float]] = table["model"]["vocab"]
    vocabulary = {piece: token_id for token_id, (piece, _) in enumerate(pieces)}
    tokens, types = _tokens(vocabulary, table, rows)
    scores = [float(score) for _, score in pieces]
    scores += [0.0] * (len(tokens) - len(scores))
    return Vocabulary(
        model="t5",
        tokens=tokens,
        types=types,
        scores=tuple(scores),
        space_prefix=_has_space_prefix(table),
        charsmap=_charsmap(table),
    )


def _charsmap(table: Table) -> bytes:
    normalizer: dict[str, Any] = table["normalizer"] or {}
    steps: list[dict[str, Any]] = normalizer.get("normalizers", [normalizer])
    maps = [step["precompiled_charsmap"] for step in steps if step.get("type") == "Precompiled"]
    return base64.b64decode(maps[0]) if maps else b""


def _tokens(
    vocabulary: Mapping[str, int], table: Table, rows: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text and the type of each id."""
    by_id = {token_id: (token, "NORMAL") for token, token_id in vocabulary.items()}
    if table["model"].get("byte_fallback"):
        by_id |= {
            token_id: (token, "BYTE")
            for token, token_id in vocabulary.items()
            if len(token) == 6 and token.startswith("<0x") and token.endswith(">")
        }
    for token in table["added_tokens"]:
        kind = "CONTROL" if token["special"] else "USER_DEFINED"
        by_id[token["id"]] = (token["content"], kind)
    unknown = _unknown(table, by_id)
    if unknown is not None:
        by_id[unknown] = (by_id[unknown][0], "UNKNOWN")
    pairs = [by_id.get(row, (f"[UNUSED{row}]", "UNUSED")) for row in range(rows)]
    return tuple(text for text, _ in pairs), tuple(kind for _, kind in pairs)


def _unknown(table: Table, by_id: Mapping[int, tuple[str, str]]) -> int | None:
    model = table["model"]
    if model["type"] == "Unigram":
        return cast("int | None", model.get("unk_id"))
    name = model.get("unk_token")
    return next((token_id for token_id, (token, _) in by_id.items() if token == name), None)


def _pre_tokenizers(table: Table) -> list[dict[str, Any]]:
    cut: dict[str, Any] | None = table["pre_tokenizer"]
    if cut is None:
        return []
    return cast("list[dict[str, Any]]", cut.get("pretokenizers", [cut]))
