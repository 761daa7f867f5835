"""What the C of `activations.c` takes, and a call of it by several threads.

Comes in: addresses of numbers. Goes out: the same memory, filled. It does not know torch. Numbers
are independent: the number of threads changes none.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from pathlib import Path
from typing import Literal

from pellucid.native.compile import library
from pellucid.native.cross_entropy import BYTES, Kind
from pellucid.native.parts import in_parts

_SOURCE = Path(__file__).with_name("activations.c")
#: Fewer numbers than this are done by one thread: to wake another takes as long.
_LEAST = 2**18

ActivationName = Literal["relu_squared", "silu", "gelu", "gelu_tanh"]
Way = Literal["forward", "backward"]


def activation(
    name: ActivationName, way: Way, kind: Kind
) -> Callable[[tuple[int, ...], int, int], None] | None:
    """x -> y forwards; x, dL/dy -> dL/dx backwards: (addresses, how many, threads); None without C.

    relu_squared: max(x, 0)^2; silu: x sigmoid(x); gelu: x Phi(x), to 1.5e-7; gelu_tanh: as GPT-2
    has it.
    """
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    function = getattr(loaded, f"pellucid_{name}_{kind}_{way}")
    function.argtypes = [*[c_void_p] * (2 if way == "forward" else 3), c_int64]
    function.restype = None
    size = BYTES[kind]

    def run(addresses: tuple[int, ...], count: int, threads: int) -> None:
        def part(first: int, last: int) -> None:
            function(*(each + first * size for each in addresses), last - first)

        in_parts(part, count, min(threads, max(1, count // _LEAST)))

    return run
