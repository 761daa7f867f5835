"""Embedding: each token's row of numbers, and the tokens that have similar ones."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.catalogue import message, messages
from pellucid.explain.chapter_types import Content, Receipt, Table
from pellucid.explain.chapters.pictures import feature_bars
from pellucid.explain.equations.equation import stack_prefix
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import widen
from pellucid.explain.receipts import embedding_receipt
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_NEAREST = 5
#: To bound memory, however large the vocabulary.
_ROWS_AT_ONCE = 16_384


def build(trace: Trace, selection: Selection) -> Content:
    """A token's row, its nearest neighbours by cosine, and whether the head is the same matrix."""
    table = trace.model.token_embedding.weight
    token_id = int(trace.stack_pass(selection.side).ids[0, selection.token])
    embedded = trace[cell(f"{stack_prefix(trace, selection.side)}embedding", selection.token)]
    neighbours, cosines = nearest(table, token_id)
    cosine = _cosine(trace, selection, token_id, neighbours[0]) if neighbours else None
    return Content(
        sentence=message(
            "embedding.token-becomes-row-of-a",
            query=selection.query(trace),
            token_id=token_id,
            n_table=len(table),
            shape=table.shape[1],
        ),
        pictures=(
            feature_bars(
                message("embedding.the-features-of-the-token", scaling=_describe_scaling(trace)),
                embedded,
            ),
            Table(
                title=message("embedding.nearest-tokens-by-cosine-of"),
                columns=messages("word.token", "word.id", "word.cosine"),
                rows=tuple(
                    (piece(trace, word), word, cosine)
                    for word, cosine in zip(neighbours, cosines, strict=True)
                ),
            ),
        ),
        receipts=(embedding_receipt(trace, selection), cosine),
        notes=(_describe_head(trace),),
    )


@torch.no_grad()
def nearest(table: Tensor, token_id: int) -> tuple[list[int], list[float]]:
    """The tokens whose rows point in the most similar direction, and the cosines."""
    own_row = widen(table[token_id])
    products, lengths = torch.empty_like(widen(table[:, 0])), torch.empty_like(widen(table[:, 0]))
    for start in range(0, len(table), _ROWS_AT_ONCE):
        rows = widen(table[start : start + _ROWS_AT_ONCE])
        products[start : start + len(rows)] = torch.mv(rows, own_row)
        lengths[start : start + len(rows)] = rows.square().sum(-1).sqrt()
    cosines = products / (lengths * lengths[token_id]).clamp_min(torch.finfo(own_row.dtype).tiny)
    cosines[token_id] = -torch.inf
    closest = cosines.topk(min(_NEAREST, len(cosines) - 1))
    return to_list(closest.indices), to_list(closest.values)


def _cosine(trace: Trace, selection: Selection, token_id: int, neighbour: int) -> Receipt:
    build, address = ReceiptBuilder(trace), "token_embedding.weight"
    a, b = (build.vector(f"E[{word}]", address, word) for word in (token_id, neighbour))
    return build.receipt(
        a.address,
        title=message(
            "embedding.cosine-of-and", query=selection.query(trace), word=piece(trace, neighbour)
        ),
        formula="a · b / (|a| |b|)",
        expression=a @ b / ((a @ a).sqrt() * (b @ b).sqrt()),
        source=(nearest, "cosines = products /"),
        model=nearest(trace.model.token_embedding.weight, token_id)[1][0],
    )


def _describe_scaling(trace: Trace) -> str:
    """The changes of the row before the first layer, in words."""
    scale = trace.model.embedding_scale
    scaled = message("embedding.times", scale=scale) if scale != 1 else ""
    has_segments = trace.model.segment_embedding is not None
    return scaled + (message("embedding.with-the-vector-of-its") if has_segments else "")


def _describe_head(trace: Trace) -> str:
    if not trace.model.has_head:
        return message("embedding.the-model-has-no-head")
    if trace.model.head is None:
        return message("embedding.tied-the-head-that-makes")
    return message("embedding.not-tied-the-head-that")
