"""The residual stream: its size by depth, the share that each block adds, the variance at norms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.model.experts import ROUTERS
from pellucid.model.facts import tensor_at
from pellucid.parallel.collect import whole_inputs
from pellucid.training import Guard
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import Anatomy, Norm, first_tensor
from pellucid.vitals.taps.hooks import Hooks

#: A unit is dead if no token of the rows moves it further from zero than `_DEAD`, and than `_DEAD`
#: times the largest unit of its layer: a gated layer that begins small is not dead. If the largest
#: unit stays below `_ASLEEP`, all of them are dead.
_DEAD, _ASLEEP = 1e-3, 1e-7
#: An expert with fewer tokens has units that none of them moves by chance.
_FEWEST_TOKENS = 64
#: Queries, keys, values and a gate are computed before the first of them is normed.
_LAST_OUTPUTS = 4


class StreamTaps:
    """Hooks on blocks, norms, and the last matrices of feed-forward layers."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self.missing: dict[str, str] = {}
        if not anatomy.blocks:
            self.missing["stream.rms"] = "the model has no list of blocks of one class"
        if not anatomy.norms:
            self.missing["norm.variance_over_eps"] = (
                "the model has no norms, or the variance that they divide by is not known"
            )

    @contextmanager
    def measuring(self, metrics: AsyncMetrics) -> Generator[None]:
        """Measure every forward pass within; the last one counts."""
        measurements = _StreamMeasurements(metrics.guard, has_blocks=bool(self._anatomy.blocks))
        with Hooks(metrics.guard) as hooks:
            for name, block in self._anatomy.blocks.items():
                hooks.after(block, "stream.*", measurements.block(name), with_kwargs=True)
            for name, norm in self._anatomy.norms.items():
                hooks.before(norm.module, "norm.variance_over_eps", measurements.norm(name, norm))
            for module in self._anatomy.blocks.values() or (self._anatomy.model,):
                for part in filter(_is_matrix, named_modules(module).values()):
                    hooks.after(part, "norm.variance_over_eps", measurements.note_output)
            for place, block in self._anatomy.blocks.items():
                for name, part in named_modules(block).items():
                    is_routing = name.endswith(ROUTERS)
                    if _narrows(part) and "att" not in name.lower() and not is_routing:
                        hooks.before(
                            part, "units.dead", measurements.feed_forward_output(f"{place}.{name}")
                        )
            yield
        measurements.put_signs(metrics)


class _StreamMeasurements:
    """The measurements of one pass, made by hooks."""

    def __init__(self, guard: Guard, *, has_blocks: bool) -> None:
        self._guard = guard
        self._has_blocks = has_blocks
        self.values_by_sign: dict[str, dict[str, Tensor]] = {}
        self._last_outputs: deque[Tensor] = deque(maxlen=_LAST_OUTPUTS)

    def note(self, sign: str, place: str, compute: Callable[[], Tensor | None]) -> None:
        value = self._guard(sign, compute)
        if value is not None:
            self.values_by_sign.setdefault(sign, {})[place] = value

    def block(self, name: str) -> Any:
        def hook(
            module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Any
        ) -> None:
            x = first_tensor(inputs)
            x = first_tensor(kwargs) if x is None else x
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
            # the output of a matrix is a branch, which may begin at zero; the stream may not
            if x is not None and not any(map(partial(self._is_branch, x), self._last_outputs)):
                ratio = _variance(_wide(x), norm).mean() / max(norm.facts.eps, 1e-30)
                self.note("norm.variance_over_eps", name, lambda: ratio)

        return hook

    def _is_branch(self, x: Tensor, output: Tensor) -> bool:
        """Whether a norm's input is the output of a matrix, or a part of it such as the keys.

        Without blocks, layers may follow each other without a stream: then only parts are branches.
        """
        is_known = self._has_blocks or x.numel() < output.numel()
        return is_known and x.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()

    def note_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if tensor is not None:
            self._last_outputs.append(tensor)

    def feed_forward_output(self, name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = first_tensor(inputs)
            # an expert that few tokens use is judged by its load
            few = ".experts." in name and x is not None and len(x) < _FEWEST_TOKENS
            if x is not None and not few:
                x = whole_inputs(module, x)  # ranks may share the units
                largest_inputs = x.detach().abs().flatten(0, -2).amax(0)
                least = (_DEAD * largest_inputs.amax()).clamp(min=_ASLEEP, max=_DEAD)
                self.note("units.dead", name, lambda: (largest_inputs < least).double().mean())

        return hook

    def put_signs(self, metrics: AsyncMetrics) -> None:
        for sign, by_place in self.values_by_sign.items():
            if sign == "tokens.cosine":  # of the last block alone
                place, value = list(by_place.items())[-1]
                metrics.record(sign, value, (place,))
                continue
            values = list(by_place.values())
            metrics.record(sign, lambda values=values: _stacked(values), tuple(by_place))
        stream = list(self.values_by_sign.get("stream.rms", {}).values())
        if len(stream) > 1:
            metrics.record("stream.growth", lambda: stream[-1] / stream[0].clamp(min=1e-30))


def _variance(x: Tensor, norm: Norm) -> Tensor:
    """The variance that a norm divides by, without its epsilon, in evaluation mode."""
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
    """The RMS of the part that a block adds, over the RMS of its input."""
    added = (stream_out - stream_in).square().mean()
    return (added / stream_in.square().mean().clamp(min=1e-30)).sqrt()


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack([value.double() for value in values])


def mean_cosine(x: Tensor) -> Tensor | None:
    """The mean cosine of pairs of tokens of one row, from the length of the sum of unit vectors.

    mean_{i != j} u_i u_j = (||sum_i u_i||^2 - n) / (n (n - 1)); None if a row has one token
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
    # the matrix of Conv1D in transformers is transposed
    wide, narrow = (rows, columns) if type(part).__name__ == "Conv1D" else (columns, rows)
    return wide > narrow


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    return x if x.dtype == torch.float64 else x.float()
