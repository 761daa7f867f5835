"""Blocks of a stack that use the same weights: tied after building and after loading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from torch import nn

from pellucid.typed import named_modules


def share_weights(stack: nn.Module) -> None:
    """Give each of the stack's `blocks` the parameters of its owner, and save each of them once.

    `stack.owners` has for each block the first one with its weights. The blocks stay different
    modules, so hooks tell the layers apart. A state dict has the weights under the names of their
    first block only.
    """
    if not list(_copies(stack)):
        return
    tie_weights(stack)
    untyped = cast("Any", stack)
    untyped.register_state_dict_post_hook(_leave_out_copies)
    untyped.register_load_state_dict_pre_hook(_add_copies)
    untyped.register_load_state_dict_post_hook(tie_weights)


def tie_weights(stack: Any, _: object = None) -> None:
    """Make the parameters of each block the same objects as its owner's."""
    for block, owner in _copies(stack):
        modules = named_modules(stack.blocks[owner])
        for path, module in named_modules(stack.blocks[block]).items():
            for name, parameter in modules[path].named_parameters(recurse=False):
                module.register_parameter(name, parameter)


def _copies(stack: Any) -> Iterator[tuple[int, int]]:
    """The blocks that have an owner before them, with that owner."""
    for block, owner in enumerate(stack.owners):
        if owner != block:
            yield block, owner


def _leave_out_copies(stack: Any, state: dict[str, Any], prefix: str, _: object) -> None:
    for copy, _owner in _names(stack):
        del state[f"{prefix}{copy}"]


def _add_copies(stack: Any, state: dict[str, Any], prefix: str, *_: object) -> None:
    for copy, original in _names(stack):
        if f"{prefix}{original}" in state:
            state[f"{prefix}{copy}"] = state[f"{prefix}{original}"]


def _names(stack: Any) -> Iterator[tuple[str, str]]:
    """The names of each shared parameter in a later block and in its owner."""
    for block, owner in _copies(stack):
        for name, _ in stack.blocks[block].named_parameters():
            yield f"blocks.{block}.{name}", f"blocks.{owner}.{name}"
