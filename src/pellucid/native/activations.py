"""The interface of `activations.c`, called by several threads.

The results do not depend on the number of threads.
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
#: One thread computes fewer numbers than this: a second thread would take as long to start.
_LEAST = 2**14

#: The activations that C computes in one pass.
ActivationName = Literal["relu_squared", "gelu_tanh"]
#: Which pass is computed.
Direction = Literal["forward", "backward"]


class Numbers(ctypes.Structure):
    """The addresses of x, of dL/dy in the backward pass, and of the result: y or dL/dx."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [("x", c_void_p), ("by_y", c_void_p), ("made", c_void_p)]


def activation(
    name: ActivationName, direction: Direction, kind: Kind
) -> Callable[[Numbers, int, Threads], None] | None:
    """A function of (addresses, count, threads), or None if there is no C.

    Forward it maps x to y, backward x and dL/dy to dL/dx. There is no C for the other activations:
    torch's GELU with the error function is twice as fast as one in C, and its SiLU as fast.

    Args:
        name: "relu_squared", max(x, 0)^2, or "gelu_tanh", GELU as in GPT-2.
        direction: "forward" or "backward".
        kind: the type of the numbers.
    """
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    function = prepared(getattr(loaded, f"pellucid_{name}_{kind}_{direction}"))

    def run(numbers: Numbers, count: int, threads: Threads) -> None:
        in_parts(function, numbers, count, threads, least=_LEAST)

    return run
