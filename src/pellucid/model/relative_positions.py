"""Relative positions: schemes that depend on the distance from a query to a key."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.maths.positions.relative_positions import alibi_slopes, distance_buckets
from pellucid.model.facts import DistanceBiasFacts, DistanceVectorFacts
from pellucid.model.initialisation import empty_embedding
from pellucid.model.positions import Positions
from pellucid.model.views import View, distances


class ALiBi(Positions):
    """A penalty on scores that grows with the distance; each head has its own slope.

    `scaled`: the penalty is multiplied by the scale of the scores, too. `rounded`: in place of
    -slope |distance|, slope times the key's position, rounded to bfloat16. Without the rounding the
    softmax would be the same.

    Source:
        Press, Smith and Lewis 2022, "Train Short, Test Long"; Almazrouei et al. 2023, "The Falcon
        Series of Open Language Models", as released (scaled and rounded).
    See also:
        `pellucid.maths.alibi_slopes`, `pellucid.maths.alibi_bias`.
    """

    slopes: Tensor

    def __init__(
        self,
        *,
        n_heads: int,
        max_exponent: float = 8.0,
        scaled: bool = False,
        rounded: bool = False,
    ) -> None:
        super().__init__()
        self.scaled = scaled
        self.rounded = rounded
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            heads = torch.arange(n_heads, dtype=torch.float64)
            slopes = alibi_slopes(heads, n_heads=n_heads, max_exponent=max_exponent).float()
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(
        self,
        q: Float[Tensor, "batch heads queries d_head"],
        k: Float[Tensor, "batch kv_heads keys d_head"],
        view: View,
        scale: float,
    ) -> Float[Tensor, "*batch heads queries keys"]:
        """-slope |distance|, or the product that is `rounded`.

        Args:
            q: (batch, heads, queries, d_head). k: not used. view: the positions. scale: of the
            scores.
        """
        slopes = self.slopes[:, None, None]
        if self.rounded:
            places = _key_places(view, q.shape[2], q.device)[..., None, None, :]
            penalty = (slopes.bfloat16() * places).to(slopes.dtype)
            penalty = penalty.expand(*penalty.shape[:-2], q.shape[2], -1)
        else:
            penalty = -slopes * distances(view.start, q.shape[2], q.device).abs()
        return penalty * scale if self.scaled else penalty

    def facts(self) -> DistanceBiasFacts:
        """Which rule gives the bias."""
        return DistanceBiasFacts(
            rule="slope", by="key" if self.rounded else "distance", scaled=self.scaled
        )


def _key_places(view: View, n_queries: int, device: torch.device) -> Int[Tensor, "*batch keys"]:
    """The position of each key in its own text: padding in front of a text does not count."""
    if view.places is not None:
        return view.places
    if view.padding is not None:
        return (view.padding.long().cumsum(-1) - 1).clamp(min=0)
    return torch.arange(view.start + n_queries, device=device)


class BucketedBias(Positions):
    """A trained number per head and bucket of distances, added to the scores.

    Source:
        Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer", section 2.1.
    See also:
        `pellucid.maths.distance_buckets`.
    """

    buckets: Tensor

    def __init__(
        self,
        *,
        context_length: int,
        n_heads: int,
        n_buckets: int,
        max_distance: int,
        causal: bool,
    ) -> None:
        super().__init__()
        self.table = empty_embedding(n_buckets, n_heads)
        self.furthest = context_length - 1
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            buckets = distance_buckets(
                torch.arange(-self.furthest, self.furthest + 1),
                n_buckets=n_buckets,
                max_distance=max_distance,
                causal=causal,
            )
        self.register_buffer("buckets", buckets, persistent=False)

    def bias(
        self,
        q: Float[Tensor, "batch heads queries d_head"],
        k: Float[Tensor, "batch kv_heads keys d_head"],
        view: View,
        scale: float,
    ) -> Float[Tensor, "heads queries keys"]:
        """The number of each distance's bucket, by head.

        Args:
            q: (batch, heads, queries, d_head). k: not used. view: the positions. scale: not used.
        """
        distance = distances(view.start, q.shape[2], q.device)
        buckets = self.buckets[distance + self.furthest]
        return self.table(buckets).permute(2, 0, 1)

    def facts(self) -> DistanceBiasFacts:
        """Which rule gives the bias."""
        return DistanceBiasFacts(rule="bucket")


class ShawRelative(Positions):
    """A trained vector per clipped distance, added to keys and, with `d_value`, to values.

    score_nm = scale q_n (k_m + a_m-n);  z_n = sum_m w_nm (v_m + b_m-n). All heads share a and b.

    Source:
        Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position Representations",
        eq. 3-4.
    """

    def __init__(self, *, max_distance: int, d_head: int, d_value: int | None = None) -> None:
        super().__init__()
        self.max_distance = max_distance
        rows = 2 * max_distance + 1
        self.keys = empty_embedding(rows, d_head)
        self.values = None if d_value is None else empty_embedding(rows, d_value)
        self.adds_values = d_value is not None

    def bias(
        self,
        q: Float[Tensor, "batch heads queries d_head"],
        k: Float[Tensor, "batch kv_heads keys d_head"],
        view: View,
        scale: float,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """scale q a: the products with all 2 max_distance + 1 vectors, looked up by distance.

        Args:
            q: (batch, heads, queries, d_head). k: not used. view: the positions. scale: of the
            scores.
        """
        by_distance = (q @ self.keys.weight.to(q.dtype).t()) * scale
        index = self._index(q.shape[2], view, q.device).expand(*q.shape[:2], -1, -1)
        return by_distance.gather(-1, index)

    def add_values(
        self,
        mixed: Float[Tensor, "batch heads queries d_value"],
        weights: Float[Tensor, "batch heads queries keys"],
        view: View,
    ) -> Float[Tensor, "batch heads queries d_value"]:
        """The output plus sum_m w_nm b_m-n: weights summed by distance, then one product.

        Args:
            mixed: (batch, heads, queries, d_value), the weighted values. weights: of the keys.
            view: the positions.
        """
        if self.values is None:
            return mixed
        index = self._index(weights.shape[2], view, weights.device).expand_as(weights)
        rows = self.values.weight.shape[0]
        by_distance = weights.new_zeros(*weights.shape[:3], rows).scatter_add(-1, index, weights)
        return mixed + by_distance @ self.values.weight.to(weights.dtype)

    def _index(
        self, n_queries: int, view: View, device: torch.device
    ) -> Int[Tensor, "queries keys"]:
        distance = distances(view.start, n_queries, device)
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def facts(self) -> DistanceVectorFacts:
        """Which vectors are added to keys and to values."""
        return DistanceVectorFacts(
            max_distance=self.max_distance,
            keys="keys.weight",
            values=None if self.values is None else "values.weight",
        )
