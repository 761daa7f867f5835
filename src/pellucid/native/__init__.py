"""Code in C for what Python is too slow for: compiled once where there is a compiler, else None."""

from pellucid.native.compile import library
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
from pellucid.native.memory import huge_buffer

__all__ = [
    "INT8_BLOCK",
    "Activation",
    "Attention",
    "Call",
    "Instruction",
    "NormKind",
    "Operation",
    "Precision",
    "decode",
    "huge_buffer",
    "library",
]
