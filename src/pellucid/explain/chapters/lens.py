"""Lens: the prediction if the model ended after a layer.

It applies the final norm and the head to a state that they were not trained for. An early
prediction is a hint, and the chapter says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Content, Matrix, Table
from pellucid.explain.chapters.pictures import window
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import mask_or, read_lens, target_word
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts import logit_receipt, probability_receipt
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

#: Tokens of the map, at most: every cell is a whole distribution.
_TOKENS = 32


def build(trace: Trace, selection: Selection) -> Content:
    """The likeliest word after each layer at the selected token; p of the next, for all tokens."""
    _ = trace.model.head_weight  # for its refusal
    if selection.side != trace.side:
        raise PellucidError(message("lens.this-stack-predicts-no-word"))
    token = mask_or(trace, selection.token)
    word, origin = target_word(trace, token)
    stack_pass, word_text = trace.stack_pass(trace.side), piece(trace, word)
    layers = (
        message("word.embedding"),
        *(message("lens.layer", layer=layer) for layer in range(len(stack_pass.states) - 1)),
    )
    rows: list[tuple[str | float | int, ...]] = []
    cells: list[tuple[float, ...]] = []
    places = window(token, len(trace.ids), _TOKENS)
    words = torch.tensor([target_word(trace, place)[0] for place in places])[:, None]
    for name, state in zip(layers, stack_pass.states, strict=True):
        p_all = read_lens(trace, state, places)
        cells.append(tuple(to_list(p_all.gather(1, words)[:, 0])))
        p = p_all[places.index(token)]
        best, rank = int(p.argmax()), int((p > p[word]).sum()) + 1
        rows.append((name, piece(trace, best), float(p[best]), float(p[word]), rank))
    bare = is_identity(stack_pass.stack.final_norm)
    parts = message("word.the-head-is") if bare else message("lens.the-final-norm-and-the")
    return Content(
        sentence=message(
            "lens.if-the-model-ended-after",
            token=label(trace.pieces(trace.side), token),
            parts=parts,
        ),
        pictures=(
            Table(
                title=message("lens.after-each-layer-the-word", origin=origin, word_text=word_text),
                columns=(
                    message("word.after"),
                    message("word.likeliest"),
                    "p",
                    message("lens.p-of", word_text=word_text),
                    message("word.its-rank"),
                ),
                rows=tuple(rows),
            ),
            _map(trace, places, layers, cells),
        ),
        receipts=(logit_receipt(trace, token, word), probability_receipt(trace, token, word)),
        notes=(message("lens.early-layers-were-not-trained"),),
    )


def _map(
    trace: Trace, places: Sequence[int], layers: tuple[str, ...], cells: list[tuple[float, ...]]
) -> Matrix:
    """p of the next word (or of the likeliest at the end), layer by layer and token by token."""
    pieces = trace.pieces(trace.side)
    cut = message(
        "lens.cut-out-tokens-to-of", places=places[0], places2=places[-1], n_pieces=len(pieces)
    )
    return Matrix(
        title=message("lens.p-of-the-word-that"),
        rows=layers,
        columns=tuple(pieces[place] for place in places),
        values=tuple(cells),
        scale="sequential",
        address="",
        pooled=cut if len(places) < len(pieces) else "",
        first_column=places[0],
    )
