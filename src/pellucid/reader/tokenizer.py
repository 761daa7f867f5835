"""Tokenizer files, checked before the Rust library `tokenizers` gets them.

The library reserves memory for the largest id in a file, and ends the whole process if that fails.
On a frame with an undefined token it panics, which no `except Exception` catches. This module finds
both first. A trial text shows other panics.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pellucid.errors import PellucidError
from pellucid.reader.opening import LARGE, Refusal, read_text, short
from pellucid.reader.values import TOO_DEEP, Table, parse_json_table

if TYPE_CHECKING:
    import tokenizers

#: The largest known vocabularies have a million tokens.
MOST_TOKENS = 2**22
#: The largest length to which a file may cut or pad texts.
_LONGEST = 2**24
#: Bytes of a `tokenizer.json`: the largest vocabularies take 60 million.
_BYTES = LARGE // 2


def read_tokenizer(file: Path, *, refusal: Refusal = PellucidError) -> tokenizers.Tokenizer:
    """The tokenizer in a `tokenizer.json`.

    Raises:
        PellucidError: as `read_text` and `parse_tokenizer`.
    """
    text = read_text(file, limit=_BYTES, refusal=refusal)
    return parse_tokenizer(text, str(file), refusal=refusal)


def parse_tokenizer(
    text: str, name: str, *, refusal: Refusal = PellucidError
) -> tokenizers.Tokenizer:
    """The tokenizer that a `tokenizer.json` describes.

    Args:
        text: the JSON.
        name: what errors call it.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is not JSON, or not a tokenizer; names the wrong value.
    """
    import tokenizers

    table = parse_json_table(text, name, refusal=refusal)
    try:
        problem = _problem(table)
    except RecursionError:
        problem = TOO_DEEP
    if problem is not None:
        raise refusal(f"{name} is not a tokenizer: {problem}")
    with _no_panic(name, refusal):
        try:
            inner = tokenizers.Tokenizer.from_str(text)
            inner.no_padding()  # a file may pad each text to millions of tokens: gigabytes
            inner.decode(inner.encode(_TRIAL).ids)
        except Exception as error:  # the library raises nothing narrower
            raise refusal(f"{name} is not a tokenizer: {_first_line(error)}") from None
    return inner


@contextmanager
def _no_panic(name: str, refusal: Refusal) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise refusal(
            f"{name} is not a tokenizer: its library failed on it ({_first_line(error)})"
        ) from None


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic of a library in Rust."""
    return type(error).__name__ == "PanicException"


#: Letters, digits, blanks, a letter of two bytes, one of four.
_TRIAL = "A trial, of 12  wörds 𝔞!\n"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200] or type(error).__name__


def _problem(table: Table) -> str | None:
    """The first value that the library would not survive; None if there is none."""
    value: object = table.get("model")
    if not isinstance(value, dict):
        return f"expected an object model, was {short(value)}"
    model = cast("Table", value)
    return (
        _bad_ids(model.get("vocab"))
        or _bad_added(table.get("added_tokens"))
        or _bad_prefix(model)
        or _bad_lengths(table)
        or _bad_frame(table.get("post_processor"))
    )


def _bad_ids(vocab: object) -> str | None:
    if isinstance(vocab, list):  # Unigram: a token's id is its place
        return _too_many(len(cast("list[object]", vocab)))
    if not isinstance(vocab, dict):
        return f"expected a vocabulary in model.vocab, was {short(vocab)}"
    vocabulary = cast("dict[str, object]", vocab)
    return _too_many(len(vocabulary)) or next(
        (
            f"the token {short(token)} has the id {short(token_id)}: {_ID}"
            for token, token_id in vocabulary.items()
            if not _is_id(token_id)
        ),
        None,
    )


def _bad_added(added: object) -> str | None:
    if added is None:
        return None
    if not isinstance(added, list):
        return f"expected a list added_tokens, was {short(added)}"
    for token in cast("list[object]", added):
        if not _is_id(_entry(token, "id")):
            return f"added_tokens has the entry {short(token)}: expected an id in it, and {_ID}"
    return None


def _bad_prefix(model: Table) -> str | None:
    """A merge whose right half lacks the prefix: the library removes it without a check."""
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not isinstance(prefix, str) or not prefix or not isinstance(merges, list):
        return None
    for merge in cast("list[object]", merges):
        halves = merge.split(" ") if isinstance(merge, str) else merge
        second_half = (
            cast("list[object]", halves)[-1] if isinstance(halves, list) and halves else None
        )
        if not isinstance(second_half, str) or not second_half.startswith(prefix):
            return f"the right half of the merge {short(merge)} lacks the prefix {short(prefix)}"
    return None


def _bad_lengths(table: Table) -> str | None:
    """A length outside the limits, to which the library would cut or pad texts."""
    for part in ("truncation", "padding"):
        settings = table.get(part)
        for key, value in _numbers(settings):
            if not 0 <= value <= _LONGEST:
                return f"{part}.{key} is {short(value)}: expected at most {_LONGEST:,}"
    return None


def _numbers(settings: object, path: str = "") -> Iterable[tuple[str, float]]:
    if isinstance(settings, dict):
        for key, value in cast("Table", settings).items():
            yield from _numbers(value, f"{path}.{key}" if path else key)
    elif isinstance(settings, (int, float)) and not isinstance(settings, bool):
        yield path, settings


def _bad_frame(processor: object) -> str | None:
    """A frame around texts that names an undefined token."""
    if not isinstance(processor, dict):
        return None
    table = cast("dict[str, Any]", processor)
    processors = table.get("processors")
    for inner in cast("list[object]", processors if isinstance(processors, list) else []):
        if problem := _bad_frame(inner):
            return problem
    if table.get("type") != "TemplateProcessing":
        return None
    defined = table.get("special_tokens")
    for side in ("single", "pair"):
        for token in _special_in(table.get(side)):
            if not isinstance(token, str) or _entry(defined, token) is None:
                return f"its post_processor puts {short(token)} around texts, undefined"
    return None


def _special_in(pieces: object) -> Iterable[object]:
    for piece in cast("list[object]", pieces if isinstance(pieces, list) else []):
        special = _entry(piece, "SpecialToken")
        if special is not None:
            yield _entry(special, "id")


def _entry(table: object, key: str) -> object:
    return cast("Table", table).get(key) if isinstance(table, dict) else None


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST_TOKENS


def _too_many(n: int) -> str | None:
    return None if n <= MOST_TOKENS else f"it has {n:,} tokens: expected at most {MOST_TOKENS:,}"


_ID = f"expected a whole number from 0 to {MOST_TOKENS - 1:,}"
