"""The interface of `decode.c` as types: instructions, the numbers of attention, and a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int32, c_void_p
from enum import IntEnum
from pathlib import Path

from pellucid.native.compile import library

#: Columns of an int8 matrix that share a scale.
INT8_BLOCK = 256
#: Columns of a matrix of 4 bits that share a scale.
INT4_GROUP = 32

_SOURCE = Path(__file__).with_name("decode.c")


class Precision(IntEnum):
    """The type of a matrix."""

    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2
    INT4 = 3


class Kernel(IntEnum):
    """How products with 4 bits are computed; all give the same bits."""

    BEST = 0
    PLAIN = 1
    AVX2 = 2
    AVX512 = 3


class Operation(IntEnum):
    """The operation of an instruction; `decode.c` describes each."""

    EMBED = 0
    PLACE = 1
    NORM = 2
    PRODUCT = 3
    ADD = 4
    KEEP = 5
    ATTEND = 6
    CAP = 7


class NormKind(IntEnum):
    """Whether a norm subtracts the mean."""

    LAYER_NORM = 0
    RMS_NORM = 1


class Activation(IntEnum):
    """The function of a product."""

    LINEAR = 0
    RELU = 1
    RELU_SQUARED = 2
    GELU = 3
    GELU_TANH = 4
    SILU = 5
    QUICK_GELU = 6
    SIGMOID = 7
    TANH = 8


class Attention(ctypes.Structure):
    """The numbers of one layer's attention."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        *((name, c_int32) for name in ("layer", "n_heads", "n_kv_heads", "d_head", "d_value")),
        *((name, c_int32) for name in ("query", "key", "value", "window", "context")),
        *((name, c_int32) for name in ("n_rotated", "interleaved")),
        *((name, c_float) for name in ("scale", "soft_cap")),
        *((name, c_void_p) for name in ("cos", "sin", "by_distance", "sinks")),
    ]


class Instruction(ctypes.Structure):
    """One step of a decode program."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        *((name, c_int32) for name in ("operation", "kind", "precision", "input", "output")),
        *((name, c_int32) for name in ("times", "plus", "n_in", "n_out", "stride", "wait")),
        *((name, c_float) for name in ("number", "factor")),
        *((name, c_void_p) for name in ("matrix", "scales", "gain", "bias")),
        ("attention", ctypes.POINTER(Attention)),
    ]


class Call(ctypes.Structure):
    """One call: the next token of each row."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        ("program", ctypes.POINTER(Instruction)),
        *((name, c_int32) for name in ("length", "rows", "width")),
        *((name, c_void_p) for name in ("ids", "positions", "slots", "keys", "values")),
        *((name, c_void_p) for name in ("scratch", "logits", "own")),
        *((name, c_int32) for name in ("n_logits", "widest", "n_own", "n_threads", "kernel")),
        ("taken", c_void_p),
        *((name, c_int32) for name in ("arrived", "phase")),
    ]


def decode() -> Callable[[Call], None] | None:
    """The function that runs a call; None without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    run = loaded.pellucid_decode
    run.argtypes = [ctypes.POINTER(Call)]
    run.restype = None
    return lambda call: run(ctypes.byref(call))


def kernels() -> list[Kernel]:
    """How this processor can multiply 4 bits; none without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return []
    return [
        kernel
        for kernel in Kernel
        if kernel is not Kernel.BEST and loaded.pellucid_has_kernel(int(kernel))
    ]
