"""A linear layer with a thin update beside it: what is learnt is small, and can be taken off."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model.dropout import dropout
from pellucid.model.facts import LoRAFacts
from pellucid.model.precision import as_given


class LoRALinear(nn.Linear):
    """y = W x + b + (alpha / rank) up down dropout(x).

    `weight` and `bias` are those of `base`, the same parameters under the same names. `up` starts
    at zero, so that a fresh adapter changes nothing; `down` starts uniform within 1 / sqrt(inputs).

    Merged, the update is part of `weight` and costs nothing. The weights before are kept, because
    (W + U) - U is not W in rounded numbers: `unmerge` gives back the same bits. A state dict has
    the weights before, merged or not.

    Parameters: those of `base`, and rank (inputs + outputs).

    Source:
        Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
    """

    #: The weights before the merge, while merged.
    kept: Tensor | None

    def __init__(
        self, base: nn.Linear, *, rank: int, alpha: float, dropout: float, seed: int
    ) -> None:
        # on the meta device nothing is allocated or drawn: the parameters are the base's
        bias = cast("nn.Parameter | None", base.bias)
        cast("Any", nn.Linear).__init__(
            self, base.in_features, base.out_features, bias=bias is not None, device="meta"
        )
        self.weight = base.weight
        if bias is not None:
            self.bias = bias
        self.rank, self.alpha, self.dropout = rank, alpha, dropout
        #: False while the model is to answer as its base.
        self.active = True
        self.lora_down = nn.Parameter(_first_down(base, rank, seed))
        self.lora_up = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        self.register_buffer("kept", None, persistent=False)
        self.train(base.training)
        untyped = cast("Any", self)
        untyped.register_state_dict_post_hook(_save_unmerged)
        untyped.register_load_state_dict_pre_hook(_refuse_when_merged)

    @property
    def scale(self) -> float:
        """alpha / rank."""
        return self.alpha / self.rank

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """What the base says, and the update where it is active."""
        if self.kept is not None:
            return F.linear(input, self.weight if self.active else self.kept, self.bias)
        y = F.linear(input, self.weight, self.bias)
        if not self.active:
            return y
        x = dropout(input, self.dropout, self.training)
        return y + self.scale * F.linear(F.linear(x, self.lora_down), self.lora_up)

    @torch.no_grad()
    def folded(self) -> Float[Tensor, "outputs inputs"]:
        """W + (alpha / rank) up down."""
        weight = self.weight if self.kept is None else self.kept
        with as_given(weight.device):
            return torch.addmm(weight, self.lora_up, self.lora_down, alpha=self.scale)

    @torch.no_grad()
    def merge(self) -> None:
        """Make the update part of `weight`; nothing happens to one that is merged."""
        if self.kept is None:
            folded = self.folded()
            self.kept = self.weight.detach().clone()
            self.weight.copy_(folded)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Put the weights before the merge back, bit for bit."""
        if self.kept is not None:
            self.weight.copy_(self.kept)
            self.kept = None

    def extra_repr(self) -> str:
        """The numbers, for `print(model)`."""
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
            merged=self.kept is not None,
            bias=None if cast("Any", self).bias is None else "bias",
        )


def _first_down(base: nn.Linear, rank: int, seed: int) -> Tensor:
    """Uniform within 1 / sqrt(inputs), which is Kaiming's bound with a = sqrt(5).

    Drawn on the CPU in float32 by a generator of its own: the numbers depend on the seed alone.
    """
    weight = base.weight
    if weight.device.type == "meta":
        return weight.new_empty(rank, base.in_features)
    bound = 1 / math.sqrt(base.in_features)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.empty(rank, base.in_features, dtype=torch.float32, device="cpu")
    return drawn.uniform_(-bound, bound, generator=generator).to(weight)


def _save_unmerged(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
    layer = cast("LoRALinear", module)
    if layer.kept is not None:
        state[f"{prefix}weight"] = layer.kept


def _refuse_when_merged(module: nn.Module, *_: object) -> None:
    if cast("LoRALinear", module).kept is not None:
        raise PellucidError(
            "weights were to be loaded into a layer whose update is merged into them: unmerge first"
        )
