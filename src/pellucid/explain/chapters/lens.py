"""Lens: what would be predicted if the model ended after a layer.

The final norm and the head are applied to a state they were not trained for: what is read off early
is a hint, and the chapter says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Chapter, Matrix, Place, Table
from pellucid.explain.chapters.target_token import mask_or, target_word
from pellucid.explain.outputs import widen
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts import logit_receipt, probability_receipt
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

#: Tokens of the ladder, at most: every cell is a whole distribution.
_TOKENS = 32


def build(trace: Trace, place: Place) -> Chapter:
    """The likeliest word after each layer at the chosen token; p of what came, for all tokens."""
    selection = select_place(trace, place)
    if not trace.model.has_head:
        _ = trace.model.head_weight  # for its refusal
    if selection.side != trace.side:
        raise PellucidError(
            "no word is read off this stack: look at the other with --stack decoder"
        )
    token = mask_or(trace, selection.token)
    word, origin = target_word(trace, token)
    states = trace.stack_pass(trace.side).states
    rows: list[tuple[str | float | int, ...]] = []
    for layer, state in enumerate(states):
        shares = lens(trace, state, [token])[0]
        best = int(shares.argmax())
        name = "embedding" if layer == 0 else f"layer {layer - 1}"
        ranks = int((shares > shares[word]).sum()) + 1
        rows.append((name, piece(trace, best), float(shares[best]), float(shares[word]), ranks))
    word_text = piece(trace, word)
    return Chapter(
        sentence=f"If the model ended after each layer, what would it say behind "
        f"{trace.pieces(trace.side)[token]!r} ({token})? {_end(trace)} applied to the stream as it "
        "is there.",
        pictures=(
            Table(
                title=f"after each layer; the word {origin} is {word_text}",
                columns=("after", "likeliest", "p", f"p of {word_text}", "its rank"),
                rows=tuple(rows),
            ),
            _ladder(trace, token),
        ),
        receipts=(
            logit_receipt(trace, token, word),
            probability_receipt(trace, token, word),
        ),
        notes=("early layers were not trained to be read so: a hint, not a thought",),
    )


@torch.no_grad()
def lens(trace: Trace, state: Tensor, places: Sequence[int]) -> Tensor:
    """The probabilities that the model's end makes of a state (1, time, width) at some places.

    The norm is given the whole text: there are norms that look at all of it.
    """
    model = trace.model
    end = model.readable(trace.stack_pass(trace.side).stack.final_norm(state))
    return torch.softmax(widen(model.logits(end[0, list(places)])), dim=-1)


def _end(trace: Trace) -> str:
    bare = is_identity(trace.stack_pass(trace.side).stack.final_norm)
    return "The head is" if bare else "The final norm and the head are"


def _ladder(trace: Trace, token: int) -> Matrix:
    """p of the word that came (or is likeliest in the end), layer by layer and token by token."""
    pieces, states = trace.pieces(trace.side), trace.stack_pass(trace.side).states
    first = max(0, min(token - _TOKENS // 2, len(pieces) - _TOKENS))
    places = range(first, min(first + _TOKENS, len(pieces)))
    words = torch.tensor([target_word(trace, place)[0] for place in places])
    grid = [to_list(lens(trace, state, places).gather(1, words[:, None])[:, 0]) for state in states]
    cut = len(places) < len(pieces)
    return Matrix(
        title="p of the word that came next, or of the likeliest where none did",
        rows=("embedding", *(f"layer {layer}" for layer in range(len(states) - 1))),
        columns=tuple(pieces[place] for place in places),
        values=tuple(map(tuple, grid)),
        scale="sequential",
        address="",
        pooled=f"cut out: tokens {first} to {places[-1]} of {len(pieces)}" if cut else "",
        first_column=first,
    )
