"""Where the tokens in hand stand, and which tokens each of them may look at.

Masks compose: a key is seen where all of them allow it. Where the fused kernel has another way
(causality alone, one query after a cache, padding that is a row and not a square), no square of
time x time is formed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.errors import PellucidError


class View(NamedTuple):
    """What a stack's layers are told about the tokens in hand.

    `mask` says all there is to say where it is given; `causal` says that the kernel's own causal
    mask is meant, and then there is no `mask`.
    """

    #: how many tokens came before the first in hand, and are in the caches
    start: int
    causal: bool
    #: True where a key is seen; broadcasts to (batch, heads, queries, keys)
    mask: Bool[Tensor, ...] | None = None
    #: the position of each token, where they do not simply count on from `start`
    places: Int[Tensor, "batch time"] | None = None
    #: True where a token is real, where some are padding
    padding: Bool[Tensor, "batch keys"] | None = None
    documents: Int[Tensor, "batch time"] | None = None
    #: how many tokens at the beginning of each row all others may look at, where some are
    prefix: Int[Tensor, " batch"] | None = None
    #: the stack is causal, however the mask says it: for layers that read from left to right
    forwards: bool = False

    def within(self, window: int | None, n_queries: int, device: torch.device) -> View:
        """This view, each query seeing keys less than `window` away: itself alone, if that is 1."""
        n_keys = self.start + n_queries
        if window is None or n_keys <= window:
            return self
        far = distances(self.start, n_queries, device)
        near = far.abs() < window
        if self.causal:
            near &= far <= 0
        elif self.mask is not None:
            near = near & self.mask
        return self._replace(causal=False, mask=near)


def distances(start: int, n_queries: int, device: torch.device) -> Int[Tensor, "queries keys"]:
    """Key position minus query position, of `n_queries` queries after `start` tokens."""
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
    """The view of `n_queries` tokens that come after `start` others.

    `documents` numbers the document of each token: none looks into another, and positions count
    from each document's beginning. `prefix`: how many tokens at the beginning of each row all
    others may look at, causal or not. `padding` is True where a token is real, those before
    `start` included.

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
        together = documents[:, None, :, None] == documents[:, None, None, :]
        mask = together if mask is None else mask & together
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
    """Whether causality is all there is to say, and the kernel's own mask says it."""
    return start == 0 and all(mask is None for mask in masks)


def _places(documents: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """How far each token stands from the beginning of its document."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - torch.where(begins, index, 0).cummax(dim=1).values
