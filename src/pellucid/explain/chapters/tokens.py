"""Tokens: what the tokenizer made of the sentence, and how it came to it."""

from __future__ import annotations

from pellucid.explain.chapter_types import Chapter, Picture, Place, Table, Tokens
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.tokenizers import Tokenizer, WordMerges, replay

_MOST_STEPS = 16


def build(trace: Trace, place: Place) -> Chapter:
    """Pieces and ids; the merges of the chosen token's word; bytes of split characters."""
    selection = select_place(trace, place)
    pieces = trace.pieces(selection.side)
    ids = tuple(int(token) for token in trace.stack_pass(selection.side).ids[0])
    pictures: list[Picture] = [Tokens(title="tokens and their ids", pieces=pieces, ids=ids)]
    notes = list(trace.sentence.notes)
    if trace.run is not None:
        tokenizer = trace.run.tokenizer
        pictures += _merges(tokenizer, trace.sentence.text, selection.token, pieces)
        pictures += _split(tokenizer, ids, pieces)
        if not tokenizer.merges():
            notes.append("this tokenizer has no merges: each piece is looked up as it is")
    else:
        notes.append("there is no tokenizer here: the pieces are the ids themselves")
    if len(trace.sides) == 2:
        other_side = "encoder" if selection.side == "decoder" else "decoder"
        other_pieces = trace.pieces(other_side)
        pictures.append(
            Tokens(
                title=f"what the {other_side} reads",
                pieces=other_pieces,
                ids=tuple(int(token) for token in trace.stack_pass(other_side).ids[0]),
            )
        )
    return Chapter(
        sentence=f"The model reads numbers: the text is cut into {len(ids)} pieces from its "
        f"vocabulary, and each is one number, its id.",
        pictures=tuple(pictures),
        notes=tuple(notes),
    )


def _merges(tokenizer: Tokenizer, text: str, token: int, pieces: tuple[str, ...]) -> list[Picture]:
    """The merges of the word that a token belongs to; the first that has some, for others."""
    words = replay(tokenizer, text)
    word = _word_of(words, token - _in_front(tokenizer, text, len(pieces)))
    if word is None or not word.steps:
        word = next((candidate for candidate in words if candidate.steps), None)
    if word is None:
        return []
    start = (" ".join(word.symbols), "", "single symbols")
    steps = [
        (" ".join(step.symbols), step.rank, f"{step.pair[0]} + {step.pair[1]}")
        for step in word.steps
    ]
    shown_steps = steps if len(steps) <= _MOST_STEPS else steps[: _MOST_STEPS - 1] + steps[-1:]
    cut = (
        ""
        if len(shown_steps) == len(steps)
        else f" ({len(steps) - len(shown_steps)} merges left out)"
    )
    title = f"merges of {''.join(word.symbols)!r}, replayed{cut}; rank 0 was learnt first"
    return [Table(title=title, columns=("word", "rank", "merged"), rows=(start, *shown_steps))]


def _in_front(tokenizer: Tokenizer, text: str, n_tokens: int) -> int:
    """How many tokens stand before the text's own; those behind it are as many, or none."""
    return min(1, n_tokens - len(tokenizer.encode(text)))


def _word_of(words: list[WordMerges], token: int) -> WordMerges | None:
    n_tokens_before = 0
    for word in words:
        n_tokens_before += len(word.tokens)
        if 0 <= token < n_tokens_before:
            return word
    return None


def _split(tokenizer: Tokenizer, ids: tuple[int, ...], pieces: tuple[str, ...]) -> list[Picture]:
    """Tokens whose bytes are no whole characters."""
    rows: list[tuple[str | float | int, ...]] = []
    for place, (token_id, piece) in enumerate(zip(ids, pieces, strict=True)):
        format_expression = tokenizer.bytes_of(token_id)
        if format_expression is None:
            continue
        try:
            format_expression.decode()
        except UnicodeDecodeError:
            rows.append((place, piece, format_expression.hex(" ")))
    if not rows:
        return []
    title = "tokens that are a part of a character: its bytes are spread over several"
    return [Table(title=title, columns=("place", "token", "bytes"), rows=tuple(rows[:16]))]
