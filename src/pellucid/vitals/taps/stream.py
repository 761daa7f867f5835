"""The residual stream: its size by depth, what each block adds, what norms divide by."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.model.facts import tensor_at
from pellucid.training import Guard
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy, Norm, first_tensor
from pellucid.vitals.taps.hooks import Hooks

#: A unit is dead where no token of the rows moves it further from zero than this, nor than this of
#: what its layer's largest unit is moved by: a gated layer that begins small is not dead. Where not
#: even that one is moved by more than the last number, all of them are.
_DEAD, _ASLEEP = 1e-3, 1e-7


class StreamTaps:
    """Hooks on blocks, norms and the matrices that feed-forwards end with."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self.missing: dict[str, str] = {}
        if not anatomy.blocks:
            self.missing["stream.rms"] = "no list of alike blocks was found in the model"
        if not anatomy.norms:
            self.missing["norm.variance_over_eps"] = "what the model's norms divide by is not known"

    @contextmanager
    def on(self, tape: AsyncMetrics) -> Generator[None]:
        """Within it every pass is measured; the last one counts."""
        measurements = _StreamMeasurements(tape.guard)
        with Hooks(tape.guard) as hooks:
            for name, block in self._anatomy.blocks.items():
                hooks.after(block, "stream.*", measurements.block(name), named=True)
            for name, norm in self._anatomy.norms.items():
                hooks.before(norm.module, "norm.variance_over_eps", measurements.norm(name, norm))
            for place, block in self._anatomy.blocks.items():
                for name, part in named_modules(block).items():
                    if _is_matrix(part):
                        hooks.after(part, "norm.variance_over_eps", measurements.written)
                    if _narrows(part) and "att" not in name.lower():
                        hooks.before(part, "units.dead", measurements.narrowing(f"{place}.{name}"))
            yield
        measurements.put_signs(tape)


class _StreamMeasurements:
    """What the hooks of one pass saw."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.by_sign: dict[str, dict[str, Tensor]] = {}
        self._written: Tensor | None = None

    def note(self, sign: str, place: str, compute: Callable[[], Tensor | None]) -> None:
        value = self._guard(sign, compute)
        if value is not None:
            self.by_sign.setdefault(sign, {})[place] = value

    def block(self, name: str) -> Any:
        def hook(
            module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any
        ) -> None:
            x = first_tensor(inputs)
            x = first_tensor(named) if x is None else x
            y = first_tensor(output)
            if x is None or y is None or x.shape != y.shape:
                return
            stream_in, stream_out = _wide(x), _wide(y)
            self.note("stream.rms", name, lambda: stream_out.square().mean().sqrt())
            self.note("stream.branch_ratio", name, lambda: _added(stream_in, stream_out))
            self.note("tokens.cosine", name, lambda: mean_cosine(stream_out))

        return hook

    def norm(self, name: str, norm: Norm) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = first_tensor(inputs)
            # what a matrix has just written is a branch: it may begin at zero, the stream may not
            branch = self._written
            if x is not None and (branch is None or x.data_ptr() != branch.data_ptr()):
                over = _variance(_wide(x), norm).mean() / max(norm.facts.eps, 1e-30)
                self.note("norm.variance_over_eps", name, lambda: over)

        return hook

    def written(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._written = first_tensor(output)

    def narrowing(self, name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = first_tensor(inputs)
            if x is not None:
                moved = x.detach().abs().flatten(0, -2).amax(0)
                least = (_DEAD * moved.amax()).clamp(min=_ASLEEP, max=_DEAD)
                self.note("units.dead", name, lambda: (moved < least).double().mean())

        return hook

    def put_signs(self, tape: AsyncMetrics) -> None:
        for sign, at in self.by_sign.items():
            if sign == "tokens.cosine":  # the last block's alone
                place, value = list(at.items())[-1]
                tape.put(sign, value, (place,))
                continue
            values = list(at.values())
            tape.put(sign, lambda values=values: _stacked(values), tuple(at))
        stream = list(self.by_sign.get("stream.rms", {}).values())
        if len(stream) > 1:
            tape.put("stream.growth", lambda: stream[-1] / stream[0].clamp(min=1e-30))


def _variance(x: Tensor, norm: Norm) -> Tensor:
    """What a norm divides by the root of, without its epsilon, in evaluation mode."""
    facts = norm.facts
    if facts.running_variance is not None:
        return tensor_at(norm.module, facts.running_variance)
    match facts.mean_over:
        case "features":
            dims: tuple[int, ...] = (-1,)
            if facts.n_groups > 1:
                x = x.view(*x.shape[:-1], facts.n_groups, -1)
        case "sequence":
            dims = (-2,)
        case "batch":
            dims = tuple(range(x.ndim - 1))
        case _:
            assert_never(facts.mean_over)
    return x.var(dims, correction=0) if facts.centred else x.square().mean(dims)


def _added(stream_in: Tensor, stream_out: Tensor) -> Tensor:
    """The RMS of what a block adds, of what it was given."""
    added = (stream_out - stream_in).square().mean()
    return (added / stream_in.square().mean().clamp(min=1e-30)).sqrt()


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack([value.double() for value in values])


def mean_cosine(x: Tensor) -> Tensor | None:
    """The mean cosine of pairs of tokens of one row, from the length of the sum of unit vectors.

    mean_{i != j} u_i u_j = (||sum_i u_i||^2 - n) / (n (n - 1)); None where a row has one token
    """
    if x.ndim < 3 or x.shape[-2] < 2:
        return None
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
