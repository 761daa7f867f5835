"""Dropout, which takes a CPU half the time that torch's takes it, or less."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.facts import DropoutFacts

_SIXTEEN_BITS = 2**16


class Dropout(nn.Dropout):
    """`dropout` while the module is in training; what comes in, otherwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Of any shape, which it keeps."""
        return dropout(input, self.p, self.training)

    def facts(self) -> DropoutFacts:
        """How much it drops."""
        return DropoutFacts(probability=self.p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """In training each number is zero with probability p, or else divided by 1 - p.

    On a CPU p is a multiple of 1 / 65,536, the nearest, and 64 bits are drawn for four numbers;
    torch draws for each. On a GPU, and in a compiled model, torch's kernel is as good as any.

    Source:
        Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from
        Overfitting".
    """
    dropped = round(p * _SIXTEEN_BITS)
    if x.device.type != "cpu" or torch.compiler.is_compiling() or dropped == _SIXTEEN_BITS:
        return F.dropout(x, p, training)
    if dropped == 0 or not training:
        return x
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    mask = draws.view(torch.int16)[: x.numel()] >= dropped - _SIXTEEN_BITS // 2
    return x * mask.view(x.shape).to(x.dtype).mul_(_SIXTEEN_BITS / (_SIXTEEN_BITS - dropped))
