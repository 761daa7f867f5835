"""The data that a model learns from: batches of ids, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import IGNORED
from pellucid.errors import PellucidError


@dataclass(frozen=True, slots=True)
class Examples:
    """Batches of ids, and the labels of the first batch; `padding` is True for real tokens.

    `source` holds the encoder's ids; `batches` then holds the decoder's.

    Attributes:
        labels: of the first batch, in the form that the loss takes.
        source_padding: true for real tokens of the encoder.
    """

    batches: tuple[Tensor, ...]
    labels: Tensor | None = None
    padding: Tensor | None = None
    source: Tensor | None = None
    source_padding: Tensor | None = None

    @property
    def ids(self) -> Tensor:
        """The first batch."""
        return self.batches[0]

    def to_device(self, device: torch.device) -> Examples:
        """The same data on another device."""
        parts = (self.labels, self.padding, self.source, self.source_padding)
        copies = (None if part is None else part.to(device) for part in parts)
        return Examples(tuple(batch.to(device) for batch in self.batches), *copies)


def examples(
    ids: Tensor | Sequence[Tensor],
    labels: Tensor | None = None,
    padding: Tensor | None = None,
    *,
    two_texts: bool = False,
) -> Examples:
    """The data, with types and shapes checked.

    Args:
        ids: (batch, time) whole numbers, or several batches.
        labels: (batch, time) of the first batch.
        padding: (batch, time) of the first batch, True for real tokens.
        two_texts: whether labels belong to another text than ids, as in translation; their
            length may then differ.

    Raises:
        PellucidError: ids are not whole numbers in (batch, time), or labels have another shape.
    """
    is_single = isinstance(ids, Tensor | str | Mapping) or not hasattr(ids, "__iter__")
    batches = (cast("Tensor", ids),) if is_single else tuple(cast("Sequence[Tensor]", ids))
    tensors: tuple[Any, ...] = batches if labels is None else (*batches, labels)
    wrong = [tensor for tensor in tensors if not isinstance(tensor, Tensor)]
    if wrong:
        raise PellucidError(
            f"ids and labels must be tensors of whole numbers in (batch, time), was "
            f"{wrong[0]!r:.40}. For several batches pass a list of tensors; encode text with a "
            "tokenizer first"
        )
    for batch in batches:
        if batch.ndim != 2 or batch.is_floating_point() or not batch.numel():
            raise PellucidError(
                f"ids must be whole numbers in (batch, time) and not empty, was "
                f"{tuple(batch.shape)} of {batch.dtype}"
            )
    if not batches:
        raise PellucidError("ids is an empty list: pass at least one batch, or leave ids out")
    rows = batches[0].shape[0]
    if two_texts and labels is not None and (labels.ndim != 2 or labels.shape[0] != rows):
        raise PellucidError(
            "labels must be (batch, time) with a row for each row of ids, was "
            f"{tuple(labels.shape)} for {rows} rows"
        )
    for name, tensor in (("labels", None if two_texts else labels), ("padding", padding)):
        if tensor is not None and tensor.shape != batches[0].shape:
            raise PellucidError(
                f"{name} must have the shape of the first batch of ids, was {tuple(tensor.shape)} "
                f"and {tuple(batches[0].shape)}"
            )
    return Examples(batches, labels, padding)


def targets_for(ids: Tensor, shift: int) -> Tensor:
    """For each position the id `shift` positions later, and `IGNORED` at the end of a row."""
    targets = torch.full_like(ids, IGNORED)
    targets[:, : ids.shape[1] - shift] = ids[:, shift:]
    return targets


def cross_entropy(logits: Tensor, targets: Tensor, *, total: bool = False) -> float:
    """The mean (or the sum) of -log p(target) over targets that are not ignored, in float32."""
    flat = logits.detach().flatten(0, 1).float()
    loss = F.cross_entropy(flat, targets.flatten(), ignore_index=IGNORED, reduction="sum")
    n = 1 if total else int((targets != IGNORED).sum())
    return float(loss) / n if n else float("nan")


def alignment(ids: Tensor, labels: Tensor) -> dict[int, float]:
    """For shifts of 0, 1 and 2: the share of supervised labels that equal the shifted ids."""
    matches: dict[int, float] = {}
    for shift in (0, 1, 2):
        targets = targets_for(ids, shift)
        is_supervised = (labels != IGNORED) & (targets != IGNORED)
        equal = (labels == targets)[is_supervised]
        matches[shift] = float(equal.double().mean()) if equal.numel() else 0.0
    return matches
