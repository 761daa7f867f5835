"""What the C of `cross_entropy.c` takes, and a call of it by several threads.

Rows are independent: the number of threads changes no number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Literal, get_args

from pellucid.native.compile import library
from pellucid.native.parallel import Threads, in_parts, prepared

_SOURCE = Path(__file__).with_name("cross_entropy.c")


class Settings(ctypes.Structure):
    """What all rows share; `learning` 0 asks for the losses alone and leaves the logits."""

    #: a name that is no field is an error, and not an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        ("vocab", c_int64),
        ("ignored", c_int64),
        ("smoothing", c_float),
        ("z_loss", c_float),
        ("divisor", c_float),
        ("learning", c_int32),
    ]


class Rows(ctypes.Structure):
    """Addresses: of the first row's logits, target and results; `bias` is None where none is."""

    #: a name that is no field is an error, and not an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        ("logits", c_void_p),
        ("bias", c_void_p),
        ("targets", c_void_p),
        ("losses", c_void_p),
        ("log_z", c_void_p),
        ("hits", c_void_p),
        ("extra", c_void_p),
        ("how", Settings),
    ]


Kind = Literal["float32", "bfloat16"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kind_of(dtype: object) -> Kind | None:
    """The kind of a dtype, torch's or another's, by its name; None where C has none of it."""
    name = str(dtype).rpartition(".")[2]
    return next((kind for kind in KINDS if kind == name), None)


Errors = Callable[[Kind, Rows, int, Threads], None]


def errors() -> Errors | None:
    """What turns logits into errors: (kind, rows, how many, threads); None without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    functions = {kind: prepared(getattr(loaded, f"pellucid_errors_{kind}")) for kind in KINDS}

    def run(kind: Kind, rows: Rows, count: int, threads: Threads) -> None:
        in_parts(functions[kind], rows, count, threads)

    return run
