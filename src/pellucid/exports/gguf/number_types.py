"""The library `gguf`, an extra, and the types of numbers in a file."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.extras import import_extra

#: By the value of `--type`: the type's name in the library, and the type of the file.
_TYPES = {
    "f32": ("F32", "ALL_F32"),
    "f16": ("F16", "MOSTLY_F16"),
    "bf16": ("BF16", "MOSTLY_BF16"),
    "q8_0": ("Q8_0", "MOSTLY_Q8_0"),
}
TYPES = tuple(_TYPES)
#: A block of q8_0 has so many numbers of one row.
_BLOCK = 32
#: Matrices that llama.cpp adds to states or multiplies them by, and routers: float32.
_EXACT = ("position_embd", "token_types", "attn_rel_b", "_norm.", ".bias", "ffn_gate_inp.")


def gguf_library() -> Any:
    """The module `gguf`.

    Raises:
        LibraryError: it is missing or too old; says how to install it.
    """
    return import_extra("gguf", "gguf", newest="GGUFWriter.add_rope_freq_base_swa")


def check_type(name: str) -> None:
    """Refuse a type that GGUF files of pellucid do not have.

    Raises:
        ConfigError: it is none of them.
    """
    if name not in _TYPES:
        raise ConfigError(f"--type {name} does not exist: take one of {', '.join(TYPES)}")


def file_type(library: Any, name: str) -> int:
    """The number of `general.file_type`."""
    return int(getattr(library.LlamaFileType, _TYPES[name][1]))


def number_type(library: Any, name: str, tensor_name: str, tensor: Tensor) -> Any:
    """The type of one tensor: vectors, routers, and tables added to states stay float32.

    A matrix whose rows do not divide into blocks is half precision in a file of type q8_0.

    Args:
        library: `gguf`.
        name: the type that was asked for.
        tensor_name: the name in the file.
        tensor: the tensor.
    """
    types = library.GGMLQuantizationType
    if tensor.ndim < 2 or any(part in tensor_name for part in _EXACT):
        return types.F32
    if name == "q8_0" and tensor.shape[-1] % _BLOCK:
        return types.F16
    return getattr(types, _TYPES[name][0])
