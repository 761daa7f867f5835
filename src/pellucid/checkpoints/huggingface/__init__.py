"""Hugging Face directories, and back.

Comes in: a folder with `config.json` and safetensors, as `transformers` writes them. Goes out: a
config and a model with its weights; and the other way. What a family is, is data: one file for each
in `families/`. What is not known by name is refused by name.
"""

from pellucid.checkpoints.huggingface.adapter import (
    ADAPTER_FILES,
    Adapter,
    base_of_adapter,
    is_adapter,
    read_adapter,
    write_adapter,
)
from pellucid.checkpoints.huggingface.classes import MULTI_LABEL, SINGLE_LABEL
from pellucid.checkpoints.huggingface.directory import is_huggingface
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.read import Published, open_published
from pellucid.checkpoints.huggingface.write import PUBLISHED_FILES, choose_family, write_published

__all__ = [
    "ADAPTER_FILES",
    "FAMILIES",
    "MULTI_LABEL",
    "PUBLISHED_FILES",
    "SINGLE_LABEL",
    "Adapter",
    "Published",
    "base_of_adapter",
    "choose_family",
    "is_adapter",
    "is_huggingface",
    "open_published",
    "read_adapter",
    "write_adapter",
    "write_published",
]
