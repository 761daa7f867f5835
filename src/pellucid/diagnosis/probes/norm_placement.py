"""Find the residual path of the blocks, and the placement of their norms.

The probe sets the output of every matrix in the blocks to zero, and makes the input of each block
three times as large. So only the residual path remains. Its output is three times as large if the
path has no norm, of the usual size if it has one, and zero if there is no path.
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
    """The placement of norms in the blocks, and whether a residual path exists; None: unknown."""

    norm: Literal["pre", "post", "none"] | None
    residual: bool | None


def frame_of(anatomy: Anatomy, call: Callable[[], Any]) -> Frame:
    """The frame of the blocks, from one call of the model, which stays as it is."""
    ratios: list[float] = []
    handles: list[Any] = []
    try:
        with reading_mode(anatomy.model):
            for block in anatomy.blocks.values():
                handles.extend(_silence(block, ratios))
            call()
    except Exception:
        # a foreign model may refuse such inputs
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
    """Whether the first block adds about the same to a larger stream, as any norm makes it do."""
    added: list[Tensor] = []
    factors = iter((1.0, _TIMES))

    def scale(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _times(next(factors), args, kwargs)

    def keep(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any
    ) -> None:
        output = returned if isinstance(returned, Tensor) else returned[0]
        added.append(output - (args[0] if args else kwargs["hidden_states"]))

    block = next(iter(anatomy.blocks.values()))
    handles = [
        block.register_forward_pre_hook(scale, with_kwargs=True),
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


def _times(factor: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A block's inputs, with the stream multiplied by a factor."""
    if args and isinstance(args[0], Tensor):
        return (args[0] * factor, *args[1:]), kwargs
    if isinstance(kwargs.get("hidden_states"), Tensor):
        return args, kwargs | {"hidden_states": kwargs["hidden_states"] * factor}
    return args, kwargs


def _silence(block: nn.Module, ratios: list[float]) -> Iterator[Any]:
    """Register the hooks of one block; each call of it adds a ratio of output to input."""
    inputs: list[Tensor] = []

    def scale(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _times(_TIMES, args, kwargs)
        inputs.append(args[0] if args else kwargs["hidden_states"])
        return args, kwargs

    def compare(module: nn.Module, args: Any, returned: Any) -> None:
        output = returned if isinstance(returned, Tensor) else returned[0]
        x = inputs.pop()
        if isinstance(output, Tensor) and output.shape == x.shape:
            ratios.append(float(_size(output) / _size(x).clamp(min=1e-30)))

    def zero(module: nn.Module, args: Any, returned: Any) -> Any:
        return torch.zeros_like(returned) if isinstance(returned, Tensor) else returned

    yield block.register_forward_pre_hook(scale, with_kwargs=True)
    for part in named_modules(block).values():
        weight = getattr(part, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(part, nn.Embedding):
            yield part.register_forward_hook(zero)
    yield block.register_forward_hook(compare)


def _size(x: Tensor) -> Tensor:
    return x.float().square().mean().sqrt()
