"""Code in C for hot loops: compiled once per machine; without a compiler its functions are None.

Must not know: torch, models.
"""

from pellucid.native.activations import ActivationName, Direction, Numbers, activation
from pellucid.native.compile import allowed, is_disabled, library
from pellucid.native.cross_entropy import Errors, Kind, Rows, Settings, errors, kind_of
from pellucid.native.decode import (
    INT4_GROUP,
    INT8_BLOCK,
    Activation,
    Attention,
    Call,
    Instruction,
    Kernel,
    NormKind,
    Operation,
    Precision,
    decode,
    kernels,
)
from pellucid.native.few_bits import Matrix, to_int4, widen
from pellucid.native.parallel import Threads, huge_buffer
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "INT4_GROUP",
    "INT8_BLOCK",
    "Activation",
    "ActivationName",
    "Attention",
    "Call",
    "Direction",
    "Errors",
    "Instruction",
    "Kernel",
    "Kind",
    "Matrix",
    "NormKind",
    "Numbers",
    "Operation",
    "Precision",
    "Rows",
    "Settings",
    "Threads",
    "activation",
    "allowed",
    "decode",
    "errors",
    "huge_buffer",
    "is_disabled",
    "kernels",
    "kind_of",
    "library",
    "to_int4",
    "widen",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
