"""The dtype of matrix products, where several of them read one tensor.

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
