"""Refuse weights that are not finite, before anything is computed with them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid.errors import NonFiniteError


def first_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with NaN or an infinity; None if all are finite."""
    return next((name for name, tensor in tensors.items() if not _is_finite(tensor)), None)


def refuse_non_finite(tensors: Mapping[str, Tensor], source: object) -> None:
    """Refuse weights that are not finite; `source` is their origin, for the message.

    Raises:
        NonFiniteError: names the first such tensor, and the number of its bad values.
    """
    name = first_non_finite(tensors)
    if name is None:
        return
    tensor = tensors[name].detach()
    bad = tensor[~torch.isfinite(tensor)]
    raise NonFiniteError(
        f"{source}: the weights {name} hold {float(bad[0])}, in {len(bad):,} of {tensor.numel():,} "
        "values, so the model's outputs would mean nothing. Use an earlier checkpoint or another "
        "copy; `pellucid check` shows all faults"
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return True
    # minimum and maximum show NaN and infinities: one pass without memory
    extremes = torch.stack(torch.aminmax(tensor.detach()))
    return bool(torch.isfinite(extremes).all())
