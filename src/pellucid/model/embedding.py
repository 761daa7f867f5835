"""A table of trained vectors, before its first numbers are drawn.

Comes in: its size. Goes out: an `nn.Embedding` of zeros. It does not know what it is a table of.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn


def table(rows: int, width: int) -> nn.Embedding:
    """`rows` vectors of `width` features, all zero: `initialise` draws them.

    torch would draw them, too; on the meta device by a way that loads its compiler, which takes a
    second and 70 MB whenever a saved model is opened.
    """
    from_pretrained = cast("Any", nn.Embedding).from_pretrained
    return from_pretrained(torch.zeros(rows, width), freeze=False)
