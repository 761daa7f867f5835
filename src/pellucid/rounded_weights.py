"""Weights in bfloat16 that small updates still move: with a remainder, or rounded at random.

A model computes with the rounded weights. An update reads the exact one in float32, changes it, and
rounds the result again. With a remainder of 16 bits the exact one is the float32 number. Without
it, it is the bfloat16 itself, and the rounding is up or down at random, right on average.

Must not know: optimisers, kinds of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from jaxtyping import BFloat16, Float32, Int16
from torch import Tensor, nn

from pellucid import config

#: As the config chooses it.
Rounding = config.Rounding

_BITS = 16
_HALF = 1 << (_BITS - 1)


def split(
    exact: Float32[Tensor, "*shape"],
) -> tuple[BFloat16[Tensor, "*shape"], Int16[Tensor, "*shape"]]:
    """The nearest bfloat16 of each number, and the distance to it in units of float32's last bit.

    A number halfway between two bfloat16 takes the one further from zero.

    Source:
        Kalamkar et al. 2020, "Optimizing Deep Learning Recommender Systems' Training on CPU Cluster
        Architectures" (Split-SGD-BF16, which cuts the bits off and does not round).
    """
    bits = exact.contiguous().view(torch.int32)
    upper = (bits + _HALF) >> _BITS
    remainder = bits - (upper << _BITS)
    return upper.to(torch.int16).view(torch.bfloat16), remainder.to(torch.int16)


def join(
    rounded: BFloat16[Tensor, "*shape"], remainder: Int16[Tensor, "*shape"]
) -> Float32[Tensor, "*shape"]:
    """The float32 numbers that `split` took apart, bit for bit."""
    upper = rounded.contiguous().view(torch.int16).to(torch.int32) << _BITS
    return upper.add_(remainder).view(torch.float32)


def round_stochastically(exact: Float32[Tensor, "*shape"]) -> BFloat16[Tensor, "*shape"]:
    """One of the two nearest bfloat16, the nearer one more often: the mean is the number.

    It draws from the generator of the device, which every update seeds. A number that bfloat16 has
    stays as it is.

    Source:
        Gupta et al. 2015, "Deep Learning with Limited Numerical Precision", section 3.1.
    """
    bits = exact.contiguous().view(torch.int32)
    noise = torch.randint_like(bits, 1 << _BITS)
    return (noise.add_(bits) >> _BITS).to(torch.int16).view(torch.bfloat16)


def is_rounded(weight: Tensor) -> bool:
    """Whether a parameter is in bfloat16, and its updates are in float32."""
    return hasattr(weight, "low_bits")


@torch.no_grad()
def round_parameter(parameter: nn.Parameter, rounding: Rounding) -> None:
    """Round a float32 parameter in place, to the nearest; call it before the first forward pass."""
    rounded, remainder = split(parameter.detach())
    cast("Any", parameter).low_bits = remainder if rounding == "remainder" else None
    parameter.data = rounded


def read_exact(weight: Tensor) -> Tensor:
    """A copy of a rounded parameter in float32; any other tensor as it is."""
    if not is_rounded(weight):
        return weight
    remainder: Tensor | None = cast("Any", weight).low_bits
    return weight.detach().float() if remainder is None else join(weight.detach(), remainder)


@torch.no_grad()
def write_exact(parameter: nn.Parameter, exact: Float32[Tensor, "*shape"]) -> None:
    """Give a rounded parameter a new float32 value, which it rounds."""
    remainder: Tensor | None = cast("Any", parameter).low_bits
    if remainder is None:
        parameter.copy_(round_stochastically(exact))
        return
    rounded, new_remainder = split(exact)
    parameter.copy_(rounded)
    remainder.copy_(new_remainder)


class ExactTensors(Mapping[str, Tensor]):
    """A model's tensors by name; a rounded parameter is widened each time that it is read.

    Args:
        model: the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._tensors: dict[str, Tensor] = model.state_dict(keep_vars=True)
        #: the rounded parameters; one that layers share has several names
        self.rounded = {
            name: cast("nn.Parameter", tensor)
            for name, tensor in self._tensors.items()
            if is_rounded(tensor)
        }

    def __getitem__(self, name: str) -> Tensor:
        return read_exact(self._tensors[name]).detach()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
