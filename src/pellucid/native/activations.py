"""What the C of `activations.c` takes, and a call of it by several threads.

Numbers are independent: the number of threads changes none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path
from typing import Literal

from pellucid.native.compile import library
from pellucid.native.cross_entropy import Kind
from pellucid.native.parallel import Threads, in_parts, prepared

_SOURCE = Path(__file__).with_name("activations.c")
#: Fewer numbers than this are done by one thread: to call another takes about as long.
_LEAST = 2**14

ActivationName = Literal["relu_squared", "gelu_tanh"]
Direction = Literal["forward", "backward"]


class Numbers(ctypes.Structure):
    """Addresses: of x, of dL/dy on the way back, and of where y or dL/dx goes."""

    #: a name that is no field is an error, and not an attribute that C never sees
    __slots__ = ()
    _fields_ = [("x", c_void_p), ("by_y", c_void_p), ("made", c_void_p)]


def activation(
    name: ActivationName, direction: Direction, kind: Kind
) -> Callable[[Numbers, int, Threads], None] | None:
    """x -> y forwards; x, dL/dy -> dL/dx backwards: (addresses, how many, threads); None without C.

    relu_squared: max(x, 0)^2; gelu_tanh: GELU as GPT-2 has it. torch's own GELU with the error
    function takes half the time of one in C, its SiLU as long.
    """
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    function = prepared(getattr(loaded, f"pellucid_{name}_{kind}_{direction}"))

    def run(numbers: Numbers, count: int, threads: Threads) -> None:
        in_parts(function, numbers, count, threads, least=_LEAST)

    return run
