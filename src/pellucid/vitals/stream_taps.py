"""The residual stream as it passes: its size by depth, what each block adds, what norms divide by.

Comes in: a model's anatomy. Goes out: measurements on a tape, while a pass runs under `on`. It does
not know whose pass it is.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.typed import named_modules
from pellucid.vitals.anatomy import Anatomy, Norm, first_tensor
from pellucid.vitals.tape import Tape

#: A unit is dead where no token of the rows moves it further from zero than this.
_DEAD = 1e-3


class StreamTaps:
    """Hooks on blocks, norms and the matrices that feed-forwards end with."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self.missing: dict[str, str] = {}
        if not anatomy.blocks:
            self.missing["stream.rms"] = "no list of alike blocks was found in the model"
        if not anatomy.norms:
            self.missing["norm.variance_over_eps"] = "no LayerNorm or RMSNorm was found"

    @contextmanager
    def on(self, tape: Tape) -> Generator[None]:
        """Within it every pass is measured; the last one counts."""
        seen = _Seen()
        handles = [
            block.register_forward_hook(seen.block(name), with_kwargs=True)
            for name, block in self._anatomy.blocks.items()
        ]
        handles += [
            norm.module.register_forward_pre_hook(seen.norm(name, norm))
            for name, norm in self._anatomy.norms.items()
        ]
        for place, block in self._anatomy.blocks.items():
            handles += [
                part.register_forward_hook(seen.written)
                for part in named_modules(block).values()
                if _is_matrix(part)
            ]
            handles += [
                part.register_forward_pre_hook(seen.narrowing(f"{place}.{name}", part))
                for name, part in named_modules(block).items()
                if _narrows(part) and "att" not in name.lower()
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        seen.put(tape)


class _Seen:
    """What the hooks of one pass saw."""

    def __init__(self) -> None:
        self.by_sign: dict[str, dict[str, Tensor]] = {}
        self._written: Tensor | None = None

    def note(self, sign: str, place: str, value: Tensor) -> None:
        self.by_sign.setdefault(sign, {})[place] = value

    def block(self, name: str) -> Any:
        def hook(
            module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], made: Any
        ) -> None:
            x = first_tensor(given)
            x = first_tensor(named) if x is None else x
            y = first_tensor(made)
            if x is None or y is None or x.shape != y.shape:
                return
            x, y = _wide(x), _wide(y)
            before, after = x.square().mean(), y.square().mean()
            self.note("stream.rms", name, after.sqrt())
            added = (y - x).square().mean()
            self.note("stream.branch_ratio", name, (added / before.clamp(min=1e-30)).sqrt())
            self.note("tokens.cosine", name, mean_cosine(y))

        return hook

    def norm(self, name: str, norm: Norm) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...]) -> None:
            x = first_tensor(given)
            # what a matrix has just written is a branch: it may begin at zero, the stream may not
            branch = self._written
            if x is not None and (branch is None or x.data_ptr() != branch.data_ptr()):
                x = _wide(x)
                spread = x.var(-1, correction=0) if norm.centred else x.square().mean(-1)
                self.note("norm.variance_over_eps", name, spread.mean() / max(norm.eps, 1e-30))

        return hook

    def written(self, module: nn.Module, given: Any, made: Any) -> None:
        self._written = first_tensor(made)

    def narrowing(self, name: str, part: nn.Module) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...]) -> None:
            x = first_tensor(given)
            if x is not None:
                idle = x.detach().abs().flatten(0, -2).amax(0) < _DEAD
                self.note("units.dead", name, idle.double().mean())

        return hook

    def put(self, tape: Tape) -> None:
        for sign, at in self.by_sign.items():
            if sign == "tokens.cosine":  # the last block's alone
                place, value = list(at.items())[-1]
                tape.put(sign, value, (place,))
                continue
            tape.put(sign, torch.stack([v.double() for v in at.values()]), tuple(at))
        stream = list(self.by_sign.get("stream.rms", {}).values())
        if len(stream) > 1:
            tape.put("stream.growth", stream[-1] / stream[0].clamp(min=1e-30))


def mean_cosine(x: Tensor) -> Tensor:
    """The mean cosine of pairs of tokens of one row, from the length of the sum of unit vectors.

    mean_{i != j} u_i u_j = (||sum_i u_i||^2 - n) / (n (n - 1))
    """
    if x.ndim < 3 or x.shape[-2] < 2:
        return x.new_ones(())
    n = x.shape[-2]
    unit = torch.nn.functional.normalize(x, dim=-1)
    return ((unit.sum(-2).square().sum(-1) - n) / (n * (n - 1))).mean()


def _is_matrix(part: nn.Module) -> bool:
    weight: Any = getattr(part, "weight", None)
    matrix = isinstance(weight, Tensor) and weight.ndim == 2
    return matrix and not isinstance(part, nn.Embedding)


def _narrows(part: nn.Module) -> bool:
    """Whether it is a matrix from many features to few: the last of a feed-forward layer."""
    if not _is_matrix(part):
        return False
    rows, columns = cast("Any", part).weight.shape
    # transformers' Conv1D keeps its matrix the other way round
    wide, narrow = (rows, columns) if type(part).__name__ == "Conv1D" else (columns, rows)
    return wide > narrow


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    return x if x.dtype == torch.float64 else x.float()
