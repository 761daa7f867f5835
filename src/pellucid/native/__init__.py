"""Code in C for what Python is too slow for: compiled once where there is a compiler, else None."""

from pellucid.native.activations import ActivationName, Numbers, Way, activation
from pellucid.native.compile import allowed, library, turned_off
from pellucid.native.cross_entropy import Errors, Kind, Rows, Settings, errors, kind_of
from pellucid.native.decode import (
    INT8_BLOCK,
    Activation,
    Attention,
    Call,
    Instruction,
    NormKind,
    Operation,
    Precision,
    decode,
)
from pellucid.native.huge_pages import huge_buffer
from pellucid.native.parallel import Threads

__all__ = [
    "INT8_BLOCK",
    "Activation",
    "ActivationName",
    "Attention",
    "Call",
    "Errors",
    "Instruction",
    "Kind",
    "NormKind",
    "Numbers",
    "Operation",
    "Precision",
    "Rows",
    "Settings",
    "Threads",
    "Way",
    "activation",
    "allowed",
    "decode",
    "errors",
    "huge_buffer",
    "kind_of",
    "library",
    "turned_off",
]
