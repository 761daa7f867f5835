"""Rounding to 4 bits with a calibration text: the error of one column is made up for by the next.

Rounding each weight to its nearest loses sight of what the layer computes. Inputs x of a linear
layer are correlated, so a column's error can be cancelled in part by other columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.model.precision import Narrow, lay_out_int4, narrowed
from pellucid.model.transformer import Transformer
from pellucid.native import INT4_GROUP

#: Share of the mean of the diagonal that is added to it, so that the inverse exists.
_DAMPING = 0.01
#: Bytes of second moments in memory at a time.
_MOMENT_BYTES = 2**30
#: Tokens of the calibration text in a forward pass.
_TOKENS_AT_ONCE = 2048


def calibrated(
    matrix: Float[Tensor, "rows columns"], moments: Float[Tensor, "columns columns"]
) -> Narrow:
    """4 bits with error feedback: the columns are rounded one after another.

    With H = sum x x^T over the layer's inputs and U the upper Cholesky factor of H^-1, column j
    leaves the error e = (w_j - q_j) / U_jj, and every later column k becomes w_k - e U_jk. This is
    the w_k that keeps W x nearest to its old value. Each 32 columns get their scale when their
    turn comes, as `narrowed` fits it. With uncorrelated inputs the result is `narrowed`'s.

    Args:
        matrix: W, which stays as it is.
        moments: H, symmetric; features that are always 0 may be in it.

    Source:
        Frantar et al. 2022, "GPTQ", equations (2) and (3), and algorithm 1.
    """
    factor = _inverse_factor(moments)
    rows, columns = matrix.shape
    remaining = matrix.float().clone()
    numbers = torch.empty_like(remaining)
    scales = torch.empty(rows, -(-columns // INT4_GROUP), device=remaining.device)
    for group, first in enumerate(range(0, columns, INT4_GROUP)):
        last = min(first + INT4_GROUP, columns)
        block = remaining[:, first:last].contiguous()
        fitted = narrowed(block, "int4").scales
        assert fitted is not None
        scale = scales[:, group] = fitted.flatten()[:rows].float()
        per_step = torch.where(scale == 0, 0, 1 / scale)
        errors = torch.empty_like(block)
        for column in range(last - first):
            near = factor[first + column, first + column : last]
            q = (block[:, column] * per_step).round_().clamp_(-8, 7)
            numbers[:, first + column] = q
            errors[:, column] = (block[:, column] - q * scale) / near[0]
            block[:, column + 1 :].addr_(errors[:, column], near[1:], alpha=-1)
        remaining[:, last:].addmm_(errors, factor[first:last, last:], alpha=-1)
    return lay_out_int4(numbers, scales)


def _inverse_factor(moments: Tensor) -> Float[Tensor, "columns columns"]:
    """The upper Cholesky factor of (H + damping)^-1, in float32."""
    wide = moments.double()
    diagonal = wide.diagonal()
    mean = float(diagonal.mean())
    wide = wide + torch.eye(len(wide), dtype=wide.dtype, device=wide.device) * (
        _DAMPING * mean if mean else 1.0
    )
    linalg = cast("Any", torch).linalg  # torch gives it no types
    inverse = torch.cholesky_inverse(linalg.cholesky(wide))
    factor: Tensor = linalg.cholesky(inverse, upper=True)
    return factor.float()


def moment_groups(columns: Mapping[str, int]) -> Iterator[list[str]]:
    """Matrices in order, in groups whose second moments fit into 1 GiB together.

    Args:
        columns: of each matrix, by its name.
    """
    group: list[str] = []
    n_bytes = 0
    for name, n_columns in columns.items():
        size = 4 * n_columns**2
        if group and n_bytes + size > _MOMENT_BYTES:
            yield group
            group, n_bytes = [], 0
        group.append(name)
        n_bytes += size
    yield group


@torch.no_grad()
def second_moments(
    model: Transformer, names: Sequence[str], ids: Int[Tensor, "windows time"]
) -> dict[str, Float[Tensor, "columns columns"]]:
    """The sum of x x^T over the inputs of linear layers; none for layers that read nothing.

    Args:
        model: in evaluation mode.
        names: of their matrices.
        ids: the calibration text, in windows.
    """
    moments: dict[str, Tensor] = {}

    def add(name: str, inputs: tuple[Any, ...]) -> None:
        x = inputs[0].detach().float().flatten(0, -2)
        if name not in moments:
            moments[name] = torch.zeros(x.shape[1], x.shape[1], device=x.device)
        moments[name].addmm_(x.T, x)

    def hook(name: str) -> Any:
        layer = model.get_submodule(name.removesuffix(".weight"))
        return layer.register_forward_pre_hook(lambda _, inputs: add(name, inputs))

    handles = [hook(name) for name in names]
    try:
        step = max(1, _TOKENS_AT_ONCE // ids.shape[1])
        for first in range(0, len(ids), step):
            model.hidden_states(ids[first : first + step].to(device=model.device))
    finally:
        for handle in handles:
            handle.remove()
    return moments
