"""Trained tokenizers, read from the files in which they are published.

A run stores its own copy.

    tokenizer.json                 any tokenizer of the library `tokenizers`
    vocab.bpe and encoder.json     GPT-2's byte-level BPE (also merges.txt and vocab.json)
    vocab.txt                      BERT's WordPiece
    tokenizer.model                SentencePiece's BPE
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from pellucid.errors import TextError
from pellucid.reader import LARGE, parse_tokenizer, read_json, read_text
from pellucid.tokenizers.sentencepiece import sentencepiece_from
from pellucid.tokenizers.special_tokens import read_ends
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.train import as_bert

#: A published tokenizer has one of these files.
_FILES = ("tokenizer.json", "vocab.bpe", "merges.txt", "vocab.txt", "tokenizer.model")
_MERGES = ("vocab.bpe", "merges.txt")
_ENCODERS = ("encoder.json", "vocab.json")
_KINDS = (
    "tokenizer.json, vocab.bpe with encoder.json (GPT-2), vocab.txt (BERT), or tokenizer.model "
    "(SentencePiece)"
)
_GPT2_END = "<|endoftext|>"
_BERT_SPECIAL = ("[UNK]", "[CLS]", "[SEP]")


def tokenizer_from(
    path: Path, *, begin_id: int | None = None, end_id: int | None = None
) -> Tokenizer:
    """The tokenizer in a file, or in the folder of a run or of a published model.

    GPT-2's tokenizer has two files in one folder; you can name either. A text begins and ends with
    the tokens that `tokenizer_config.json` in the same folder names, else with the tokens of
    `begin_id` and `end_id` if they are special, else with tokens that have a known name.

    Args:
        path: a file or a folder.
        begin_id: the begin token by the config of a model.
        end_id: the end token by the config of a model.

    Raises:
        TextError: there is no tokenizer, or its files are damaged or do not match each other.
    """
    if not path.exists():
        raise TextError(f"{path} does not exist: pass {_KINDS}, or their folder")
    file = _in_folder(path) if path.is_dir() else path
    if file.suffix == ".json":
        table = _json(file)
        if isinstance(table.get("model"), dict):
            return Tokenizer.load(file, begin_id=begin_id, end_id=end_id)
        return _with_ends(file, _gpt2(_find_partner(file, _MERGES), file), begin_id, end_id)
    if file.suffix == ".model":
        return _with_ends(file, sentencepiece_from(file), begin_id, end_id)
    lines = _lines(file)
    if file.suffix == ".bpe" or lines[0].startswith("#version"):
        return _with_ends(file, _gpt2(file, _find_partner(file, _ENCODERS)), begin_id, end_id)
    return _with_ends(file, _bert(file, lines), begin_id, end_id)


def beginning_with(tokenizer: Tokenizer, token_id: int) -> Tokenizer:
    """The tokenizer with another special token as begin; unchanged if the id is not special."""
    inner = parse_tokenizer(tokenizer.to_json(), "the tokenizer")
    token = inner.get_added_tokens_decoder().get(token_id)
    if token is None or not token.special or token_id == tokenizer.begin_id:
        return tokenizer
    return Tokenizer(inner, (token.content, cast("str", inner.id_to_token(tokenizer.end_id))))


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder has one of the files in which tokenizers are published."""
    return any((folder / name).is_file() for name in _FILES)


def no_tokenizer(folder: Path) -> str:
    """That a folder has no tokenizer, and the files that it would have, for messages."""
    return f"the folder {folder} holds no tokenizer: expected {_KINDS}"


def _in_folder(folder: Path) -> Path:
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    raise TextError(no_tokenizer(folder))


def _find_partner(file: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (file.parent / name).is_file():
            return file.parent / name
    raise TextError(
        f"{file} is one half of a byte-level BPE: put {' or '.join(names)} into the same folder"
    )


def _lines(file: Path) -> list[str]:
    lines = read_text(file, limit=LARGE, refusal=TextError).split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise TextError(f"{file} is empty: expected {_KINDS}")
    return lines


def _json(file: Path) -> dict[str, Any]:
    table = read_json(file, limit=LARGE, refusal=TextError)
    if not isinstance(table, dict):
        raise TextError(f"{file} is not a tokenizer: expected {_KINDS}")
    return cast("dict[str, Any]", table)


def _gpt2(merges_file: Path, encoder_file: Path) -> tokenizers.Tokenizer:
    vocabulary = _json(encoder_file)
    if not all(type(token_id) is int for token_id in vocabulary.values()):
        raise TextError(f"{encoder_file} is not a vocabulary: expected tokens with whole numbers")
    _refuse_gaps(encoder_file, cast("dict[str, int]", vocabulary))
    lines = [line for line in _lines(merges_file) if not line.startswith("#version")]
    merges: list[tuple[str, str]] = []
    for line in lines:
        head, _, tail = line.partition(" ")
        for token in (head, tail, head + tail):
            if token not in vocabulary or not token:
                raise TextError(
                    f"{merges_file} does not match {encoder_file}: the merge {line!r} needs the "
                    f"token {token!r}, which has no id; use both files of one tokenizer"
                )
        merges.append((head, tail))
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    if missing := alphabet - vocabulary.keys():
        raise TextError(f"{encoder_file} lacks {len(missing)} of the 256 bytes")
    reachable = alphabet | {head + tail for head, tail in merges} | {_GPT2_END}
    if extra := sorted(vocabulary.keys() - reachable):
        raise TextError(
            f"{encoder_file} does not match {merges_file}: it has {len(vocabulary):,} tokens, but "
            f"no merge makes {len(extra):,} of them, such as {extra[0]!r}; use both files of one "
            "tokenizer"
        )
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _refuse_gaps(file: Path, vocabulary: dict[str, int]) -> None:
    ids = sorted(vocabulary.values())
    if ids != list(range(len(ids))):
        wrong = next((n for n, i in enumerate(ids) if n != i), 0)
        raise TextError(
            f"{file} has {len(ids):,} tokens, but their ids are not 0 to {len(ids) - 1:,}: "
            f"{wrong:,} is missing or given twice"
        )


def _bert(file: Path, lines: list[str]) -> tokenizers.Tokenizer:
    vocabulary = {token: index for index, token in enumerate(lines)}
    missing = [token for token in _BERT_SPECIAL if token not in vocabulary]
    if missing:
        raise TextError(
            f"{file} is no vocab.txt of BERT: it has no {', '.join(missing)}; expected {_KINDS}"
        )
    for index, token in enumerate(lines):
        if vocabulary[token] != index:
            raise TextError(
                f"{file} has the token {token!r} twice, in lines {index + 1:,} and "
                f"{vocabulary[token] + 1:,}"
            )
    # vocab.txt does not state whether text is lower-cased; a vocabulary without capitals shows it
    cased = any(t != t.lower() for t in lines if not (t.startswith("[") and t.endswith("]")))
    inner = tokenizers.Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    as_bert(inner, lowercase=not cased)
    special = [token for token in (*_BERT_SPECIAL, "[PAD]", "[MASK]") if token in vocabulary]
    cast("Any", inner).add_special_tokens(special)
    return inner


def _with_ends(
    file: Path, inner: tokenizers.Tokenizer, begin_id: int | None, end_id: int | None
) -> Tokenizer:
    try:
        return Tokenizer(inner, read_ends(inner, file.parent, begin_id, end_id))
    except TextError as error:
        raise TextError(f"{file}: {error}") from None
