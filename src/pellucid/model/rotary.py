"""Rotary positions: queries and keys rotated by angles that grow with the position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.maths.positions.rotary import Pairing
from pellucid.model.facts import RotaryFacts
from pellucid.model.positions import Positions, at_places
from pellucid.model.views import View
from pellucid.typed import to_list


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
        cos, sin = _tables(context_length, frequencies, pairing, attention_factor)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def tables(self, length: int) -> tuple[Tensor, Tensor]:
        """The cosines and sines, (context, n_rotated), for a text of `length` tokens."""
        return self.cos, self.sin

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], view: View
    ) -> Float[Tensor, "batch heads time d_head"]:
        """x rotated by the angles of its positions."""
        cos, sin = self._rows(x, view)
        if self.n_rotated == x.shape[-1]:
            return self._rotate_pairs(x, cos, sin)
        rotated_part, unrotated = x[..., : self.n_rotated], x[..., self.n_rotated :]
        return torch.cat((self._rotate_pairs(rotated_part, cos, sin), unrotated), dim=-1)

    def _rows(self, x: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """The cosines and sines of the tokens of x."""
        return self._row(self.cos, x, view), self._row(self.sin, x, view)

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


class LengthRotary(Rotary):
    """Rotary positions whose angles depend on how many tokens the text has so far.

    Texts of up to `switch` tokens have one table of angles. Longer ones have the frequencies
    `longer(length)`; from `longest` tokens on the length changes nothing more. So keys in a cache
    are wrong once the angles change: `changes` tells when, and the text must be read again.

    Source:
        Ding et al. 2024, "LongRoPE"; Peng et al. 2023, "YaRN", section 3.3 ("Dynamic NTK").
    """

    depend_on_length = True

    def __init__(
        self,
        *,
        context_length: int,
        frequencies: Float[Tensor, " pairs"],
        longer: Callable[[int], Float[Tensor, " pairs"]],
        switch: int,
        longest: int,
        pairing: Pairing = "half_split",
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__(
            context_length=context_length,
            frequencies=frequencies,
            pairing=pairing,
            attention_factor=attention_factor,
        )
        self.switch, self.longest = switch, max(longest, switch)
        self.attention_factor = attention_factor
        self._longer = longer
        #: the tables of the longer text that was read last, by its length
        self._last: tuple[int, Tensor, Tensor] | None = None

    def changes(self, before: int, after: int) -> bool:
        """Whether a text of `after` tokens has other angles than its first `before` tokens had."""
        return self._bounded(before) != self._bounded(after)

    def tables(self, length: int) -> tuple[Tensor, Tensor]:
        """The cosines and sines, (context, n_rotated), for a text of `length` tokens."""
        length = self._bounded(length)
        if length == self.switch:
            return self.cos, self.sin
        if self._last is None or self._last[0] != length:
            frequencies, context_length = self._longer(length), self.cos.shape[0]
            tables = _tables(context_length, frequencies, self.pairing, self.attention_factor)
            self._last = length, *tables
        _, cos, sin = self._last
        return cos.to(self.cos), sin.to(self.sin)

    def _bounded(self, length: int) -> int:
        return min(max(length, self.switch), self.longest)

    def _rows(self, x: Tensor, view: View) -> tuple[Tensor, Tensor]:
        lengths = view.text_lengths(x.shape[-2])
        if isinstance(lengths, int):
            cos, sin = self.tables(lengths)
            return self._row(cos, x, view), self._row(sin, x, view)
        cos, sin = super()._rows(x, view)
        lengths = lengths.clamp(self.switch, self.longest)[:, None, :, None]
        for length in sorted(set(to_list(lengths.flatten()))):
            if length > self.switch:
                long_rows = (self._row(table, x, view) for table in self.tables(length))
                cos, sin = (
                    torch.where(lengths == length, long, short)
                    for long, short in zip(long_rows, (cos, sin), strict=True)
                )
        return cos, sin

    def facts(self) -> RotaryFacts:
        """How many features are rotated, their pairs, and the length at which angles change."""
        return RotaryFacts(n_rotated=self.n_rotated, pairing=self.pairing, switch=self.switch)


def _tables(
    context_length: int, frequencies: Tensor, pairing: Pairing, attention_factor: float
) -> tuple[Tensor, Tensor]:
    """The cosine and the sine of each feature's angle at each position."""
    with torch.device("cpu"):  # a constant: real even in a model built on the meta device
        positions = torch.arange(context_length, dtype=torch.float64)
        angles = torch.outer(positions, frequencies.double())
        if pairing == "half_split":
            feature_angles = torch.cat((angles, angles), dim=-1)
        else:
            feature_angles = angles.repeat_interleave(2, dim=-1)
    cos, sin = feature_angles.cos() * attention_factor, feature_angles.sin() * attention_factor
    return cos.float(), sin.float()
