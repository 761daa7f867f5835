"""Which part of a model is what: blocks, norms, embeddings, heads; pellucid's own and anybody's.

Comes in: any `nn.Module`. Goes out: its parts by name. What is not recognised is left out, and the
signs that need it are not available. It does not know what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.model import Transformer
from pellucid.typed import named_modules


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm of features: what it adds to the variance, and its gain."""

    module: nn.Module
    eps: float
    centred: bool
    gain: nn.Parameter | None
    #: 1 where the gain is 1 + the weight
    offset: float


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's parts, by their names in it."""

    model: nn.Module
    #: blocks in the order of depth
    blocks: dict[str, nn.Module]
    norms: dict[str, Norm]
    embeddings: dict[str, nn.Embedding]
    #: trainable parameters by name, one name for each
    parameters: dict[str, nn.Parameter]
    #: names of those that are matrices inside blocks: neither embeddings, nor heads, nor gains
    matrices: tuple[str, ...]
    #: whether each process has but a part of every weight
    is_sharded: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is a pellucid Transformer."""
        return isinstance(self.model, Transformer)

    def block_of(self, name: str) -> int | None:
        """The depth of the block that a parameter lies in, counted from 0."""
        for depth, block in enumerate(self.blocks):
            if name.startswith(f"{block}."):
                return depth
        return None


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside the wrappers of `torch.compile` and of data-parallel training."""
    inner: Any = model
    while True:
        for name in ("_orig_mod", "module"):
            within = getattr(inner, name, None)
            if isinstance(within, nn.Module) and _is_wrapper(inner, name):
                inner = within
                break
        else:
            return cast("nn.Module", inner)


def study(model: nn.Module) -> Anatomy:
    """The parts of a model."""
    outermost, model = model, unwrapped(model)
    modules = named_modules(model)
    blocks = dict(_blocks(model, modules))
    embeddings = {
        name: module for name, module in modules.items() if isinstance(module, nn.Embedding)
    }
    norms = {name: norm for name, module in modules.items() if (norm := _norm(module)) is not None}
    parameters = _trained(model)
    looked_up = {id(module.weight) for module in embeddings.values()}
    matrices = tuple(
        name
        for name, parameter in parameters.items()
        if parameter.ndim >= 2
        and id(parameter) not in looked_up
        and (not blocks or any(name.startswith(f"{block}.") for block in blocks))
    )
    sharded = any(
        type(module).__name__ == "FullyShardedDataParallel" for module in outermost.modules()
    ) or any(local(parameter) is not parameter for parameter in parameters.values())
    return Anatomy(model, blocks, norms, embeddings, parameters, matrices, sharded)


def bare(model: nn.Module) -> Anatomy:
    """A model of which nothing but its parameters is known."""
    model = unwrapped(model)
    return Anatomy(model, {}, {}, {}, _trained(model), ())


def parts_of(model: nn.Module) -> tuple[object, ...]:
    """The modules and trained parameters, to tell by whether it still is what was studied."""
    return (*map(id, model.modules()), *map(id, _trained(model).values()))


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    named = model.named_parameters()
    return {name: p for name, p in named if p.requires_grad and not is_lazy(p) and not p.is_meta}


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process has: all of it, where it is not sharded."""
    part: Any = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def _is_wrapper(module: nn.Module, name: str) -> bool:
    return name == "_orig_mod" or type(module).__name__ in (
        "DistributedDataParallel",
        "DataParallel",
        "FullyShardedDataParallel",
    )


def _blocks(model: nn.Module, modules: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(model, Transformer):
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            for depth, block in enumerate(() if stack is None else stack.blocks):
                yield f"{name}.blocks.{depth}", block
        return
    stack_names: list[str] = []
    for name, module in modules.items():
        inside = any(name.startswith(f"{stack_name}.") for stack_name in stack_names)
        if not inside and _is_stack(module):
            stack_names.append(name)
            for child, block in module.named_children():
                yield f"{name}.{child}" if name else child, block


def _is_stack(module: nn.Module) -> bool:
    """A list of at least two modules of one kind, each with attention or a norm of its own."""
    if not isinstance(module, nn.ModuleList | nn.Sequential):
        return False
    children = list(module.children())
    kinds = {type(child) for child in children}
    if len(children) < 2 or len(kinds) != 1:
        return False
    within = [type(part).__name__.lower() for part in children[0].modules()]
    if within[0].endswith("attention"):
        within = within[1:]  # a list of attentions alone: what stands around them is elsewhere
    return len(list(children[0].children())) > 1 and any(
        "norm" in kind or "attention" in kind for kind in within
    )


def _norm(module: nn.Module) -> Norm | None:
    kind = type(module).__name__
    if "LayerNorm" not in kind and "RMSNorm" not in kind:
        return None
    untyped: Any = module
    eps = next(
        (
            float(value)
            for name in ("eps", "variance_epsilon", "epsilon")
            if isinstance(value := getattr(untyped, name, None), float)
        ),
        None,
    )
    if eps is None:
        return None
    gain = next(
        (
            value
            for name in ("gain", "weight")
            if isinstance(value := getattr(untyped, name, None), nn.Parameter)
        ),
        None,
    )
    root = "RMS" in kind or kind.startswith("T5")
    offset = bool(getattr(untyped, "unit_offset", False)) or kind.startswith("Gemma")
    return Norm(module, eps, not root, gain, 1.0 if offset else 0.0)


def first_tensor(thing: object) -> Tensor | None:
    """The floating tensor that a module was given or gave: itself, or the first of several."""
    if isinstance(thing, Tensor):
        return thing if thing.is_floating_point() else None
    if isinstance(thing, dict):
        thing = tuple(cast("dict[str, object]", thing).values())
    if isinstance(thing, tuple | list):
        for item in cast("tuple[object, ...]", thing):
            if isinstance(item, Tensor) and item.is_floating_point():
                return item
    return None
