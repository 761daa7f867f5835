"""The few calls of torch that have no types, behind functions that do.

Must not know: anything of pellucid.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.utils import checkpoint

#: torch's functions, untyped; the compiler knows them as global names.
_checkpoint: Any = cast("Any", checkpoint).checkpoint
_selective_contexts: Any = cast("Any", checkpoint).create_selective_checkpoint_contexts


def apply_function(function: type[torch.autograd.Function], *args: object) -> Any:
    """`function.apply(*args)`."""
    return cast("Any", function).apply(*args)


def named_modules(module: nn.Module) -> dict[str, nn.Module]:
    """Every submodule by name, the module itself under ""."""
    return dict(cast("Any", module).named_modules())


def backward(loss: torch.Tensor) -> None:
    """`loss.backward()`."""
    cast("Any", loss).backward()


def gradients(
    output: torch.Tensor, inputs: Sequence[torch.Tensor], grad_output: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`: None for what `output` does not depend on."""
    return torch.autograd.grad(output, inputs, grad_output, allow_unused=True)


def length(x: torch.Tensor) -> float:
    """The root of the sum of squares, summed in float64: float32 loses digits over long sums."""
    norm = cast("Any", torch.linalg).vector_norm
    return float(norm(x.detach(), dtype=torch.float64))


def computed_again(compute: Callable[[], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
    """What `compute` gives; for the backward pass it is called again, and nothing is kept."""
    return _checkpoint(compute, use_reentrant=False, preserve_rng_state=False)


#: Products of matrices and attention: selective recomputation keeps their outputs.
_PRODUCTS = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)


def _is_kept(context: object, operation: Any, *args: object, **kwargs: object) -> bool:
    return operation.namespace == "aten" and operation.overloadpacket.__name__ in _PRODUCTS


def recomputed(
    compute: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    *,
    keep_products: bool,
    moved: Iterable[torch.Tensor] = (),
) -> torch.Tensor:
    """`compute(x)`, called again by the backward pass, with the same random numbers.

    Args:
        compute: what is called again; it may draw random numbers.
        x: its input, which is kept.
        keep_products: keep the outputs of products and attention too.
        moved: buffers that `compute` changes; the second call finds them as the first one did, and
            leaves them as they are.
    """
    select = functools.partial(_selective_contexts, _is_kept)
    if torch.compiler.is_compiling():
        options = {"context_fn": select} if keep_products else {}
        return _checkpoint(compute, x, use_reentrant=False, **options)
    before = [(buffer, buffer.clone()) for buffer in moved]

    def contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
        first, second = select() if keep_products else (nullcontext(), nullcontext())
        return first, _replaying(second, before)

    return _checkpoint(compute, x, use_reentrant=False, context_fn=contexts)


@contextmanager
def _replaying(
    context: AbstractContextManager[object], before: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> Generator[None]:
    """Within it, buffers have the values that they had before."""
    after = [buffer.clone() for buffer, _ in before]
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)
    try:
        with context:
            yield
    finally:
        with torch.no_grad():
            for (buffer, _), value in zip(before, after, strict=True):
                buffer.copy_(value)


def is_recomputing() -> bool:
    """Whether a backward pass runs: a module that is called within it computes again."""
    return cast("Any", torch)._C._current_graph_task_id() != -1


def eagerly() -> AbstractContextManager[object]:
    """Within it, compiled code runs uncompiled, and every hook is called.

    The compiler is not loaded for it: where it was not, nothing is compiled.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    return cast("Any", torch.compiler).set_stance("force_eager")


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies matrices of bfloat16 by instructions of its own.

    Where a CPU does not, such a product can take sixty times as long as one in float32.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # torch gives no public question for this; where it stops answering, float32 is right
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, lambda: False)() for name in names)


def from_numpy(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """`torch.from_numpy(array)`: the same memory."""
    return cast("Any", torch).from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """`tensor.numpy()`: the same memory."""
    return cast("Any", tensor).numpy()


def to_list(tensor: torch.Tensor) -> list[Any]:
    """`tensor.tolist()`."""
    return cast("Any", tensor).tolist()


@contextmanager
def own_randomness(seed: int) -> Generator[None]:
    """Within it, the CPU's global generator has this seed; afterwards it continues as before."""
    with cast("Any", torch.random).fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        yield
