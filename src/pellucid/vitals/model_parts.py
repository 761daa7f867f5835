"""Which part of any model is what: blocks, norms, embeddings, weights.

pellucid's parts state facts. Facts of other modules are derived from their structure, or unknown:
then the signs that need them are not available.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never, cast

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.model.facts import (
    IdentityFacts,
    NormFacts,
    SandwichFacts,
    UnknownFacts,
    block_facts,
    model_facts,
    norm_facts,
    tensor_at,
)
from pellucid.typed import named_modules


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm of a model, and what it computes."""

    module: nn.Module
    facts: NormFacts

    @property
    def gain(self) -> Tensor | None:
        """What scales its output, by the weight that it stores (see `NormFacts.gain_offset`)."""
        return None if self.facts.gain is None else tensor_at(self.module, self.facts.gain)


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
        return not isinstance(model_facts(self.model), UnknownFacts)

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
    norms = {
        name: Norm(module, facts)
        for name, module in modules.items()
        if (facts := _norm_facts(module)) is not None
    }
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
    if not isinstance(model_facts(model), UnknownFacts):
        for name, module in modules.items():
            if not isinstance(block_facts(module), UnknownFacts):
                yield name, module
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


def _norm_facts(module: nn.Module) -> NormFacts | None:
    """What a norm computes; None for a part that is no norm, or an unknown one."""
    facts = norm_facts(module)
    match facts:
        case NormFacts():
            return facts
        case SandwichFacts() | IdentityFacts():  # its two norms are parts of their own
            return None
        case UnknownFacts():
            derived = foreign_norm_facts(module)
            return derived if isinstance(derived, NormFacts) else None
        case _:
            assert_never(facts)


def foreign_norm_facts(module: nn.Module) -> NormFacts | UnknownFacts:
    """Facts of a norm that states none, from its class's name and its attributes.

    Those of torch and of Hugging Face are over one token's features, have an epsilon, and a weight
    that is the gain, or the gain minus 1 in Gemma. T5's LayerNorm is a root mean square.
    """
    kind = type(module).__name__
    if ("LayerNorm" not in kind and "RMSNorm" not in kind) or hasattr(module, "facts"):
        return UnknownFacts(part=kind, reason="its name is none of a norm of features")
    eps = next(
        (
            float(value)
            for name in ("eps", "variance_epsilon", "epsilon")
            if isinstance(value := getattr(module, name, None), float)
        ),
        None,
    )
    if eps is None:
        return UnknownFacts(part=kind, reason="it has no epsilon")
    parameters = dict(module.named_parameters(recurse=False))
    return NormFacts(
        mean_over="features",
        centred="RMS" not in kind and not kind.startswith("T5"),
        eps=eps,
        gain=next((name for name in ("gain", "weight") if name in parameters), None),
        gain_offset=1.0 if kind.startswith("Gemma") else 0.0,
        bias="bias" if "bias" in parameters else None,
    )


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
