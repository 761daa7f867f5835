"""Disentangled positions: content meets distance in the scores, as in DeBERTa."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.maths.positions.disentangled import log_distance_rows
from pellucid.model.dropout import Dropout
from pellucid.model.facts import DisentangledFacts
from pellucid.model.initialisation import empty_embedding
from pellucid.model.positions import Positions, ProjectsPositions
from pellucid.model.views import View, distances


class DistanceProjections(NamedTuple):
    """Projections of vectors of distances, beside those of content."""

    query: nn.Module | None
    key: nn.Module | None


NO_DISTANCES = DistanceProjections(None, None)


class Disentangled(Positions):
    """A vector per row of distances, the same in all layers; each layer makes queries and keys.

    bias_nm = scale (q_n . P_k[r_nm] + k_m . P_q[r_nm]), each term if it is asked for. With
    `max_distance`, far distances share rows; without, distances beyond the table share the last.

    Source:
        He, Liu, Gao and Chen 2020, "DeBERTa", eq. 4; He, Gao and Chen 2021, "DeBERTaV3", its
        released code (shared projections, buckets, norm).
    See also:
        `pellucid.maths.disentangled_bias`, against which it is tested.
    """

    rows: Tensor

    def __init__(
        self,
        *,
        context_length: int,
        d_model: int,
        n_buckets: int,
        max_distance: int | None,
        content_to_position: bool,
        position_to_content: bool,
        own_projections: bool = False,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.content_to_position = content_to_position
        self.position_to_content = position_to_content
        self.own_projections = own_projections
        self.table = empty_embedding(n_buckets, d_model)
        self.norm = norm or nn.Identity()
        self.dropout = Dropout(dropout)
        self.furthest = context_length - 1
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            reach = torch.arange(-self.furthest, self.furthest + 1)
            if max_distance is None:
                rows = (n_buckets // 2 - reach).clamp(0, n_buckets - 1)
            else:
                rows = log_distance_rows(reach, n_buckets=n_buckets, max_distance=max_distance)
        self.register_buffer("rows", rows, persistent=False)

    def in_layer(self, layer: ProjectsPositions) -> Positions:
        """The scheme with the queries and keys that a layer makes of the distances' vectors."""
        vectors = self.dropout(self.norm(self.table.weight))
        return DisentangledInLayer(
            self,
            layer.position_keys(vectors) if self.content_to_position else None,
            layer.position_queries(vectors) if self.position_to_content else None,
        )

    def facts(self) -> DisentangledFacts:
        """Where its vectors are, and which terms it has."""
        return DisentangledFacts(
            table="table.weight",
            norm="norm",
            content_to_position=self.content_to_position,
            position_to_content=self.position_to_content,
            own_projections=self.own_projections,
        )


class DisentangledInLayer(Positions):
    """`Disentangled` with the queries and keys of distances in one layer."""

    def __init__(
        self,
        scheme: Disentangled,
        keys: Float[Tensor, "kv_heads rows d_head"] | None,
        queries: Float[Tensor, "heads rows d_head"] | None,
    ) -> None:
        super().__init__()
        self._scheme = (scheme,)  # in a tuple: it belongs to its stack
        self.keys, self.queries = keys, queries

    def bias(
        self,
        q: Float[Tensor, "batch heads queries d_head"],
        k: Float[Tensor, "batch kv_heads keys d_head"],
        view: View,
        scale: float,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """scale (q P_k + k P_q): products with all vectors, looked up by the rows of distances.

        Args:
            q: (batch, heads, queries, d_head). k: (batch, kv_heads, keys, d_head). view: the
            positions. scale: of the scores.
        """
        rows = self.rows_of(q.shape[2], view, q.device).expand(*q.shape[:2], -1, -1)
        terms: list[Tensor] = []
        if self.keys is not None:
            keys = _repeat(self.keys, q.shape[1], dim=0).to(q.dtype)
            terms.append((q @ keys.mT).gather(-1, rows))
        if self.queries is not None:
            by_row = self.queries.to(q.dtype) @ _repeat(k, q.shape[1], dim=1).mT
            terms.append(by_row.gather(-2, rows))
        return torch.stack(terms).sum(0) * scale

    def rows_of(
        self, n_queries: int, view: View, device: torch.device
    ) -> Int[Tensor, "queries keys"]:
        """The row of the distance from each query to each key."""
        scheme = self._scheme[0]
        return scheme.rows[distances(view.start, n_queries, device) + scheme.furthest]

    def facts(self) -> DisentangledFacts:
        """Those of the scheme."""
        return self._scheme[0].facts()


def _repeat(x: Tensor, n_heads: int, *, dim: int) -> Tensor:
    """The keys of groups, once for each of their query heads."""
    groups = n_heads // x.shape[dim]
    return x if groups == 1 else x.repeat_interleave(groups, dim=dim)
