"""Rotary positions: queries and keys rotated by angles that grow with the position."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.maths.positions.rotary import Pairing
from pellucid.model.facts import RotaryFacts
from pellucid.model.positions import Positions, at_places
from pellucid.model.views import View


class Rotary(Positions):
    """Queries and keys rotated, so that their product depends on their distance only.

    "half_split" pairs feature i with i + n / 2 (the layout of Llama's weights), "interleaved" 2i
    with 2i + 1. Features without a frequency stay as they are. `attention_factor` multiplies cos
    and sin.

    Source:
        Su et al. 2021, "RoFormer", eq. 34.
    See also:
        `pellucid.maths.rotate`, against which it is tested.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        *,
        context_length: int,
        frequencies: Float[Tensor, " pairs"],
        pairing: Pairing = "half_split",
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__()
        self.pairing: Pairing = pairing
        self.n_rotated = 2 * frequencies.shape[0]
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            positions = torch.arange(context_length, dtype=torch.float64)
            angles = torch.outer(positions, frequencies.double())
            if pairing == "half_split":
                feature_angles = torch.cat((angles, angles), dim=-1)
            else:
                feature_angles = angles.repeat_interleave(2, dim=-1)
        cos, sin = feature_angles.cos() * attention_factor, feature_angles.sin() * attention_factor
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], view: View
    ) -> Float[Tensor, "batch heads time d_head"]:
        """x rotated by the angles of its positions."""
        cos, sin = (self._row(table, x, view) for table in (self.cos, self.sin))
        if self.n_rotated == x.shape[-1]:
            return self._rotate_pairs(x, cos, sin)
        rotated_part, unrotated = x[..., : self.n_rotated], x[..., self.n_rotated :]
        return torch.cat((self._rotate_pairs(rotated_part, cos, sin), unrotated), dim=-1)

    def _row(self, table: Tensor, x: Tensor, view: View) -> Tensor:
        rows = at_places(table, x.shape[-2], view).to(x.dtype)
        return rows if view.places is None else rows[:, None]

    def _rotate_pairs(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if self.pairing == "half_split":
            first, second = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-second, first), dim=-1) * sin
        first, second = x[..., ::2], x[..., 1::2]
        partners = torch.stack((-second, first), dim=-1).flatten(-2)
        return x * cos + partners * sin

    def facts(self) -> RotaryFacts:
        """How many features are rotated, and their pairs."""
        return RotaryFacts(n_rotated=self.n_rotated, pairing=self.pairing)
