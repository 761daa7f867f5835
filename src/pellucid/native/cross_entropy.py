"""What the C of `cross_entropy.c` takes, and a call of it by several threads.

Comes in: addresses of rows of logits, of their targets, of where the results go. Goes out: the
same memory, filled. It does not know torch. Rows are independent: the number of threads changes no
number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Literal, NamedTuple

from pellucid.native.compile import library
from pellucid.native.parts import in_parts

_SOURCE = Path(__file__).with_name("cross_entropy.c")


class Settings(ctypes.Structure):
    """What all rows share; `learning` 0 asks for the losses alone and leaves the logits."""

    _fields_ = [
        ("vocab", c_int64),
        ("ignored", c_int64),
        ("smoothing", c_float),
        ("z_loss", c_float),
        ("divisor", c_float),
        ("learning", c_int32),
    ]


class Rows(NamedTuple):
    """Addresses: of the first row's logits, target and results; `bias` is None where none is."""

    logits: int
    bias: int | None
    targets: int
    losses: int
    log_z: int
    hits: int
    extra: int


Kind = Literal["float32", "bfloat16"]
#: Of a number.
BYTES: dict[Kind, int] = {"float32": 4, "bfloat16": 2}


def kind_of(dtype: object) -> Kind | None:
    """The kind of a dtype, torch's or another's, by its name; None where C has none of it."""
    name = str(dtype).rpartition(".")[2]
    return next((kind for kind in BYTES if kind == name), None)


Errors = Callable[[Kind, Rows, int, Settings, int], None]


def errors() -> Errors | None:
    """What turns logits into errors: (kind, rows, how many, settings, threads); None without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    functions = {kind: getattr(loaded, f"pellucid_errors_{kind}") for kind in BYTES}
    for function in functions.values():
        function.argtypes = [
            *(c_void_p, c_void_p, c_void_p, c_int64, ctypes.POINTER(Settings)),
            *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        ]
        function.restype = None

    def run(kind: Kind, rows: Rows, count: int, settings: Settings, threads: int) -> None:
        function, row = functions[kind], settings.vocab * BYTES[kind]

        def part(first: int, last: int) -> None:
            small, long = 4 * first, 8 * first
            function(
                rows.logits + row * first,
                rows.bias,
                rows.targets + long,
                last - first,
                ctypes.byref(settings),
                (c_float * settings.vocab)(),
                *(place + small for place in rows[3:]),
            )

        in_parts(part, count, threads)

    return run
