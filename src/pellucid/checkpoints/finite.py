"""Weights that are not numbers are found before anything is computed with them.

Comes in: named tensors. Goes out: nothing, or a refusal that names the first bad one. It does not
know where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid.errors import NonFiniteError


def first_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor that holds NaN or an infinity; None if all are finite."""
    return next((name for name, tensor in tensors.items() if not _is_finite(tensor)), None)


def refuse_non_finite(tensors: Mapping[str, Tensor], where: object) -> None:
    """Refuse weights that are not finite; `where` says where they lie.

    Raises:
        NonFiniteError: names the first such tensor, and how many of its values are bad.
    """
    name = first_non_finite(tensors)
    if name is None:
        return
    tensor = tensors[name].detach()
    bad = tensor[~torch.isfinite(tensor)]
    raise NonFiniteError(
        f"{where}: the weights {name} hold {float(bad[0])}, in {len(bad):,} of {tensor.numel():,} "
        "values: nothing that this model computes would mean anything. Use an earlier checkpoint "
        "or another copy; pellucid check shows what else is wrong with it"
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return True
    # NaN and infinities show in the extremes: one pass that allocates nothing
    extremes = torch.stack(torch.aminmax(tensor.detach()))
    return bool(torch.isfinite(extremes).all())
