"""Tokens: the sentence as the tokenizer cuts it, and the merges that made a word."""

from __future__ import annotations

from pellucid.catalogue import message, messages
from pellucid.explain.chapter_types import Content, Picture, Table, Tokens
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.tokenizers import Tokenizer, WordMerges, replay

_MOST_STEPS = 16


def build(trace: Trace, selection: Selection) -> Content:
    """Pieces and ids; the merges of the selected token's word; bytes of split characters."""
    pieces = trace.pieces(selection.side)
    ids = tuple(int(token) for token in trace.stack_pass(selection.side).ids[0])
    pictures: list[Picture | None] = [
        Tokens(title=message("tokens.tokens-and-their-ids"), pieces=pieces, ids=ids)
    ]
    notes = list(trace.sentence.notes)
    tokenizer = None if trace.run is None else trace.run.tokenizer
    if tokenizer is not None:
        pictures += [
            _merges(tokenizer, trace.sentence.text, selection.token, len(pieces)),
            _split(tokenizer, ids, pieces),
        ]
        if not tokenizer.merges():
            notes.append(message("tokens.this-tokenizer-has-no-merges"))
    else:
        notes.append(message("tokens.there-is-no-tokenizer-here"))
    if len(trace.sides) == 2:
        other_side = "encoder" if selection.side == "decoder" else "decoder"
        pictures.append(
            Tokens(
                title=message(f"tokens.what-the-{other_side}-reads"),
                pieces=trace.pieces(other_side),
                ids=tuple(int(token) for token in trace.stack_pass(other_side).ids[0]),
            )
        )
    return Content(
        sentence=_describe(tokenizer, ids),
        pictures=pictures,
        notes=notes,
    )


def _describe(tokenizer: Tokenizer | None, ids: tuple[int, ...]) -> str:
    special = 0
    if tokenizer is not None:
        special = sum(tokenizer.id_of(tokenizer.token(token_id)) == token_id for token_id in ids)
    n = len(ids) - special
    note = message("tokens.besides-special", n=special) if special else ""
    return message("tokens.the-model-reads-numbers-the", n=n, besides=note)


def _merges(tokenizer: Tokenizer, text: str, token: int, n_tokens: int) -> Table | None:
    """The merges of the word that a token belongs to; else of the first word that has some."""
    words = replay(tokenizer, text)
    # special tokens before the text: those behind it are as many, or none
    n_before = min(1, n_tokens - len(tokenizer.encode(text)))
    word = _find_word(words, token - n_before)
    if word is None or not word.steps:
        word = next((candidate for candidate in words if candidate.steps), None)
    if word is None:
        return None
    start = (" ".join(word.symbols), "", message("tokens.single-symbols"))
    steps = [
        (" ".join(step.symbols), step.rank, f"{step.pair[0]} + {step.pair[1]}")
        for step in word.steps
    ]
    cut = ""
    if len(steps) > _MOST_STEPS:
        cut = message("tokens.merges-left-out", n=len(steps) - _MOST_STEPS)
        steps = steps[: _MOST_STEPS - 1] + steps[-1:]
    return Table(
        title=message(
            "tokens.merges-of-replayed-rank-0", symbols=repr("".join(word.symbols)), cut=cut
        ),
        columns=messages("word.word", "word.rank", "word.merged"),
        rows=(start, *steps),
    )


def _find_word(words: list[WordMerges], token: int) -> WordMerges | None:
    n_tokens_before = 0
    for word in words:
        n_tokens_before += len(word.tokens)
        if 0 <= token < n_tokens_before:
            return word
    return None


def _split(tokenizer: Tokenizer, ids: tuple[int, ...], pieces: tuple[str, ...]) -> Table | None:
    """Tokens whose bytes are no whole characters."""
    rows: list[tuple[str | float | int, ...]] = []
    for place, (token_id, piece) in enumerate(zip(ids, pieces, strict=True)):
        token_bytes = tokenizer.bytes_of(token_id)
        if token_bytes is None:
            continue
        try:
            token_bytes.decode()
        except UnicodeDecodeError:
            rows.append((place, piece, token_bytes.hex(" ")))
    if not rows:
        return None
    return Table(
        title=message("tokens.tokens-that-are-a-part"),
        columns=messages("word.place", "word.token", "word.bytes"),
        rows=tuple(rows[:16]),
    )
