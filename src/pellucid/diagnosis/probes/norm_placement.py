"""How the blocks of a model are framed: whether a path goes past its layers, and where norms stand.

Every matrix in the blocks is made to say nothing, and what a block is given is made three times as
large. What comes out is then the residual path alone: three times as large where nothing stands in
it, of its own size where a norm does, and nothing where there is no path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.typed import named_modules
from pellucid.vitals import Anatomy, reading_mode

_TIMES = 3.0


class Frame(NamedTuple):
    """Where norms stand in the blocks, and whether each has a residual path; None is not known."""

    norm: Literal["pre", "post", "none"] | None
    residual: bool | None


def frame_of(anatomy: Anatomy, call: Callable[[], Any]) -> Frame:
    """The frame of the blocks, by one call of the model, which leaves no trace."""
    ratios: list[float] = []
    handles: list[Any] = []
    try:
        with reading_mode(anatomy.model):
            for block in anatomy.blocks.values():
                handles.extend(_silenced(block, ratios))
            call()
    except Exception:
        # somebody's code may not bear such inputs: then nothing is known
        return Frame(None, None)
    finally:
        for handle in handles:
            handle.remove()
    has_norms = bool(anatomy.norms) or (bool(ratios) and _forgets_size(anatomy, call))
    return _read(ratios, has_norms)


def _read(ratios: list[float], has_norms: bool) -> Frame:
    if not ratios:
        return Frame(None, None)
    if min(ratios) < 1e-3:
        return Frame(None if has_norms else "none", False)
    if not has_norms:
        return Frame("none", True)
    is_pre_norm = all(abs(ratio - 1) < 0.01 for ratio in ratios)
    return Frame("pre" if is_pre_norm else "post", True)


def _forgets_size(anatomy: Anatomy, call: Callable[[], Any]) -> bool:
    """Whether the first block adds much the same to a larger stream: a norm of any make does so."""
    added: list[Tensor] = []
    factors = iter((1.0, _TIMES))

    def louder(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return _times(next(factors), args, named)

    def keep(
        module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], returned: Any
    ) -> None:
        out = returned if isinstance(returned, Tensor) else returned[0]
        added.append(out - (args[0] if args else named["hidden_states"]))

    block = next(iter(anatomy.blocks.values()))
    handles = [
        block.register_forward_pre_hook(louder, with_kwargs=True),
        block.register_forward_hook(keep, with_kwargs=True),
    ]
    try:
        with reading_mode(anatomy.model):
            call()
            call()
    except Exception:
        return False
    finally:
        for handle in handles:
            handle.remove()
    return float(_size(added[1] - added[0])) < 0.5 * float(_size(added[0]))


def _times(factor: float, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A block's inputs, with what comes down the stream so many times as large."""
    if args and isinstance(args[0], Tensor):
        return (args[0] * factor, *args[1:]), named
    if isinstance(named.get("hidden_states"), Tensor):
        return args, named | {"hidden_states": named["hidden_states"] * factor}
    return args, named


def _silenced(block: nn.Module, ratios: list[float]) -> Iterator[Any]:
    inputs: list[Tensor] = []

    def louder(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        args, named = _times(_TIMES, args, named)
        inputs.append(args[0] if args else named["hidden_states"])
        return args, named

    def compare(module: nn.Module, args: Any, returned: Any) -> None:
        out = returned if isinstance(returned, Tensor) else returned[0]
        x = inputs.pop()
        if isinstance(out, Tensor) and out.shape == x.shape:
            ratios.append(float(_size(out) / _size(x).clamp(min=1e-30)))

    def silent(module: nn.Module, args: Any, returned: Any) -> Any:
        return torch.zeros_like(returned) if isinstance(returned, Tensor) else returned

    yield block.register_forward_pre_hook(louder, with_kwargs=True)
    for part in named_modules(block).values():
        if isinstance(getattr(part, "weight", None), Tensor) and _is_matrix(part):
            yield part.register_forward_hook(silent)
    yield block.register_forward_hook(compare)


def _is_matrix(part: Any) -> bool:
    return part.weight.ndim == 2 and not isinstance(part, nn.Embedding)


def _size(x: Tensor) -> Tensor:
    return x.float().square().mean().sqrt()
