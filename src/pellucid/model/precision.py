"""The dtype of matrix products: narrow where autocast says so, wide where sums grow with the text.

Comes in: a tensor. Goes out: the same in the dtype in which it will be multiplied. It does not know
the products.
"""

from __future__ import annotations

import torch
from torch import Tensor


def for_products(x: Tensor) -> Tensor:
    """Under autocast, `x` in its dtype: cast once here, and not again by every product."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def wide(x: Tensor) -> Tensor:
    """`x` in float32 at least: for sums over a whole text."""
    return x if x.dtype == torch.float64 else x.float()


def as_given(device: torch.device) -> torch.autocast:
    """Within it, products are in the dtype of what is multiplied, whatever autocast says."""
    return torch.autocast(device.type, enabled=False)
