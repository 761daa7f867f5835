"""A linear layer with a low-rank update: few weights are trained, and you can remove them."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model.dropout import Drops, dropout
from pellucid.model.facts import LoRAFacts
from pellucid.model.precision import as_given


class LoRALinear(Drops, nn.Linear):
    """y = W x + b + (alpha / rank) up down dropout(x).

    `weight` and `bias` are the parameters of `base`, under the same names. `up` starts at zero, so
    a new adapter changes nothing; `down` starts uniform within 1 / sqrt(inputs).

    A merged update is part of `weight` and takes no extra time. The layer keeps the original
    weights, because rounding makes (W + U) - U differ from W: `unmerge` restores the same bits. A
    state dict always has the original weights.

    Parameters: the parameters of `base`, and rank (inputs + outputs).

    Source:
        Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
    """

    #: The original weights, while the update is merged.
    unmerged_weight: Tensor | None

    def __init__(
        self, base: nn.Linear, *, rank: int, alpha: float, dropout: float, seed: int
    ) -> None:
        # the parameters come from the base, so the meta device saves allocating and drawing them
        bias = cast("nn.Parameter | None", base.bias)
        cast("Any", nn.Linear).__init__(
            self, base.in_features, base.out_features, bias=bias is not None, device="meta"
        )
        self.weight = base.weight
        if bias is not None:
            self.bias = bias
        self.rank, self.alpha, self.dropout = rank, alpha, dropout
        #: False while the model computes as its base.
        self.active = True
        self._seed = seed
        self.lora_down = nn.Parameter(self._first_down())
        self.lora_up = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        self.register_buffer("unmerged_weight", None, persistent=False)
        self.train(base.training)
        untyped = cast("Any", self)
        untyped.register_state_dict_post_hook(_save_unmerged)
        untyped.register_load_state_dict_pre_hook(_refuse_when_merged)

    @property
    def scale(self) -> float:
        """alpha / rank."""
        return self.alpha / self.rank

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The base's output, plus the update if it is active."""
        if self.unmerged_weight is not None:
            weight = self.weight if self.active else self.unmerged_weight
            return F.linear(input, weight, self.bias)
        y = self.apply_base(input)
        if not self.active:
            return y
        x = dropout(input, self.dropout, self.training)
        return y + self.scale * self.apply_up(self.apply_down(x))

    def apply_base(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """W x + b."""
        return F.linear(x, self.weight, self.bias)

    def apply_down(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch rank"]:
        """down x."""
        return F.linear(x, self.lora_down)

    def apply_up(self, x: Float[Tensor, "*batch rank"]) -> Float[Tensor, "*batch outputs"]:
        """up x, of what `apply_down` gave."""
        return F.linear(x, self.lora_up)

    def _first_down(self) -> Tensor:
        """In the type of the weight, and on its device."""
        if self.weight.device.type == "meta":
            return self.weight.new_empty(self.rank, self.in_features)
        shape = (self.rank, self.in_features)
        return self.draw_down(torch.empty(shape, dtype=torch.float32, device="cpu")).to(self.weight)

    def draw_down(self, down: Float[Tensor, "rank inputs"]) -> Float[Tensor, "rank inputs"]:
        """Fill `down` with its first values, which depend on the layer's seed only.

        Uniform within 1 / sqrt(inputs), which is Kaiming's bound with a = sqrt(5). Pass a tensor
        in float32 on the CPU: a separate generator draws there.
        """
        bound = 1 / math.sqrt(self.in_features)
        generator = torch.Generator().manual_seed(self._seed)
        return down.uniform_(-bound, bound, generator=generator)

    @torch.no_grad()
    def folded(self) -> Float[Tensor, "outputs inputs"]:
        """W + (alpha / rank) up down."""
        weight = self.weight if self.unmerged_weight is None else self.unmerged_weight
        with as_given(weight.device):
            return torch.addmm(weight, self.lora_up, self.lora_down, alpha=self.scale)

    @torch.no_grad()
    def merge(self) -> None:
        """Make the update part of `weight`, unless it is already."""
        if self.unmerged_weight is None:
            folded = self.folded()
            self.unmerged_weight = self.weight.detach().clone()
            self.weight.copy_(folded)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Restore the original weights, bit for bit."""
        if self.unmerged_weight is not None:
            self.weight.copy_(self.unmerged_weight)
            self.unmerged_weight = None

    def extra_repr(self) -> str:
        """Rank and alpha too, for `print(model)`."""
        return f"{super().extra_repr()}, rank={self.rank}, alpha={self.alpha}"

    def facts(self) -> LoRAFacts:
        """Its size, and whether the update acts now."""
        return LoRAFacts(
            n_inputs=self.in_features,
            n_outputs=self.out_features,
            rank=self.rank,
            scale=self.scale,
            dropout=self.dropout,
            active=self.active,
            merged=self.unmerged_weight is not None,
            bias=None if cast("Any", self).bias is None else "bias",
        )


def _save_unmerged(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
    layer = cast("LoRALinear", module)
    if layer.unmerged_weight is not None:
        state[f"{prefix}weight"] = layer.unmerged_weight


def _refuse_when_merged(module: nn.Module, *_: object) -> None:
    if cast("LoRALinear", module).unmerged_weight is not None:
        raise PellucidError(
            "weights cannot be loaded into a layer while its update is merged: unmerge first"
        )
