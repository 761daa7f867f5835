"""The positions of a call's tokens, and which tokens each of them sees.

A key is visible if all masks allow it. If the fused kernel needs no mask of time x time (causality
only, one query after a cache, padding as a row), none is formed.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, assert_never

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.errors import PellucidError

Pooling = Literal["first", "mean", "last"]


class View(NamedTuple):
    """What the layers of a stack know about the tokens of a call.

    If `causal`, the kernel's own causal mask applies, and there is no `mask`.

    Attributes:
        start: the number of earlier tokens, which are in the caches.
        places: the position of each token, unless they count up from `start`.
        padding: True where a token is real; None if all are.
        documents: the number of each token's document, (batch, time).
        prefix: how many tokens at the start of each row all others can see.
        forwards: whether the stack is causal, also if the mask says so: for layers that read left
            to right.
    """

    start: int
    causal: bool
    #: True where a key is visible; broadcasts to (batch, heads, queries, keys)
    mask: Bool[Tensor, ...] | None = None
    places: Int[Tensor, "batch time"] | None = None
    padding: Bool[Tensor, "batch keys"] | None = None
    documents: Int[Tensor, "batch time"] | None = None
    prefix: Int[Tensor, " batch"] | None = None
    forwards: bool = False

    def real_tokens(self, n_tokens: int) -> Bool[Tensor, "batch time"] | None:
        """True where one of the `n_tokens` of this call is real; None if all are."""
        return None if self.padding is None else self.padding[:, -n_tokens:]

    def text_lengths(self, time: int) -> int | Int[Tensor, "batch texts"]:
        """How many real tokens each text has so far, with those in the caches.

        One number if all rows have as many; else (batch, 1), or (batch, time) for the document of
        each token.
        """
        if self.documents is not None:
            same = self.documents[:, :, None] == self.documents[:, None, :]
            return (same if self.padding is None else same & self.padding[:, None]).sum(-1)
        if self.padding is not None:
            return self.padding.sum(1, keepdim=True)
        return self.start + time

    def in_window(self, window: int | None, n_queries: int, device: torch.device) -> View:
        """The view, restricted to keys less than `window` away: with 1, the query itself only.

        Args:
            window: the largest distance plus 1; None changes nothing.
            n_queries: the number of tokens of this call.
            device: where the mask is.
        """
        n_keys = self.start + n_queries
        if window is None or n_keys <= window:
            return self
        distance = distances(self.start, n_queries, device)
        mask = distance.abs() < window
        if self.causal:
            mask &= distance <= 0
        elif self.mask is not None:
            mask = mask & self.mask
        return self._replace(causal=False, mask=mask)


def distances(start: int, n_queries: int, device: torch.device) -> Int[Tensor, "queries keys"]:
    """Key position minus query position, for `n_queries` queries after `start` tokens."""
    queries = torch.arange(start, start + n_queries, device=device)
    return torch.arange(start + n_queries, device=device) - queries[:, None]


def look(
    n_queries: int,
    device: torch.device,
    *,
    causal: bool,
    start: int = 0,
    padding: Bool[Tensor, "batch keys"] | None = None,
    documents: Int[Tensor, "batch time"] | None = None,
    prefix: Int[Tensor, " batch"] | None = None,
) -> View:
    """The view of `n_queries` tokens that follow `start` others.

    Args:
        n_queries: the number of tokens of this call.
        device: where the masks are.
        causal: whether no token sees later ones.
        start: the number of earlier tokens, which are in the caches.
        padding: (batch, keys), True where a token is real, including earlier ones.
        documents: (batch, time), the number of each token's document. No token sees another
            document, and positions count from the start of each document.
        prefix: (batch,), how many tokens at the start of each row all others can see.

    Raises:
        PellucidError: documents or a prefix after a cache.
    """
    if start and (documents is not None or prefix is not None):
        raise PellucidError(
            "documents and prefix cannot be continued from a cache: pass all tokens at once, "
            "or leave them out"
        )
    forwards = causal
    mask = None if padding is None else padding[:, None, None, :]
    if causal and n_queries > 1 and not _kernel_can(start, padding, documents, prefix):
        order = distances(start, n_queries, device) <= 0
        if prefix is not None:
            keys = torch.arange(n_queries, device=device)
            order = order | (keys < prefix[:, None, None, None])
        mask = order if mask is None else mask & order
        causal = False
    if documents is not None:
        same_document = documents[:, None, :, None] == documents[:, None, None, :]
        mask = same_document if mask is None else mask & same_document
    return View(
        start=start,
        causal=causal and n_queries > 1,
        mask=mask,
        places=None if documents is None else _places(documents),
        padding=padding,
        documents=documents,
        prefix=prefix,
        forwards=forwards,
    )


def _kernel_can(start: int, *masks: Tensor | None) -> bool:
    """Whether the kernel's own causal mask is all that is needed."""
    return start == 0 and all(mask is None for mask in masks)


def _places(documents: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """The distance of each token from the start of its document."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    is_first = torch.ones_like(documents, dtype=torch.bool)
    is_first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - torch.where(is_first, index, 0).cummax(dim=1).values


def padding_behind(
    ids: Int[Tensor, "batch time"], padding: Bool[Tensor, "batch time"]
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """The order that puts the real tokens of each text first, and which are real in that order.

    In this order a text with padding in front or inside has the same states as without padding, for
    all positions and kinds of attention. Rows with padding at the end stay as they are.
    """
    order = padding.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
    return order, padding.gather(1, order)


def pool(
    states: Float[Tensor, "batch time d_model"],
    padding: Bool[Tensor, "batch time"] | None,
    pooling: Pooling,
) -> Float[Tensor, "batch d_model"]:
    """One vector for each text; padding must be at the end.

    Args:
        states: (batch, time, d_model), the last states.
        padding: True where a token is real, at least one per text; None if all are.
        pooling: the state of the first token, of the last real one, or the mean of the real ones.
    """
    match pooling:
        case "first":
            return states[:, 0]
        case "mean":
            if padding is None:
                return states.mean(dim=1)
            unpadded = states.masked_fill(~padding[..., None], 0.0)
            return unpadded.sum(dim=1) / padding.sum(dim=1, keepdim=True)
        case "last":
            if padding is None:
                return states[:, -1]
            rows = torch.arange(len(states), device=states.device)
            return states[rows, padding.sum(dim=1) - 1]
        case _:
            assert_never(pooling)
