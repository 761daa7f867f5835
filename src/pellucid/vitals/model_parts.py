"""The parts of any model: blocks, norms, embeddings, weights.

pellucid's parts state facts. For other modules, pellucid derives facts from their structure. If it
cannot, the signs that need them are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.model.facts import (
    IdentityFacts,
    NormFacts,
    SandwichFacts,
    TransformerFacts,
    UnknownFacts,
    block_facts,
    model_facts,
    norm_facts,
    tensor_at,
)
from pellucid.parallel.collect import whole_tensor
from pellucid.rounded_weights import read_exact
from pellucid.typed import named_modules

#: What the class of a part is called that lets tokens see each other.
_MIXERS = ("attention", "attn", "mixer")


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm of a model, and its facts."""

    module: nn.Module
    facts: NormFacts

    @property
    def gain(self) -> Tensor | None:
        """The weight that it stores for its gain (see `NormFacts.gain_offset`)."""
        return None if self.facts.gain is None else tensor_at(self.module, self.facts.gain)


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's parts by name.

    Attributes:
        model: the module.
        blocks: blocks, the first one first.
        norms: layers that normalise.
        embeddings: tables of tokens or positions.
        parameters: trainable parameters by name, one name for each.
        matrices: names of the matrices inside blocks: no embeddings, output heads or gains.
        is_sharded: whether each process has only a part of every weight.
        kinds: the types of the parameters in training; a loop may convert them for a score.
        read: the numbers of a tensor for a look: this process's part, or the whole tensor if all
            processes take looks together.
    """

    model: nn.Module
    blocks: dict[str, nn.Module]
    norms: dict[str, Norm]
    embeddings: dict[str, nn.Embedding]
    parameters: dict[str, nn.Parameter]
    matrices: tuple[str, ...]
    is_sharded: bool = False
    kinds: frozenset[torch.dtype] = frozenset()
    read: Callable[[Tensor], Tensor] = lambda tensor: local(read_exact(tensor))

    @property
    def gathers_tensors(self) -> bool:
        """Whether all processes of a sharded model take looks at the same time."""
        return self.is_sharded and self.read is whole_tensor

    @property
    def is_ours(self) -> bool:
        """Whether it is a pellucid Transformer."""
        return not isinstance(model_facts(self.model), UnknownFacts)

    @property
    def sharing(self) -> frozenset[int]:
        """The depths of blocks whose weights are all those of an earlier block."""
        seen: set[int] = set()
        depths: set[int] = set()
        for depth, block in enumerate(self.blocks.values()):
            ids = set(map(id, block.parameters()))
            if ids and ids <= seen:
                depths.add(depth)
            seen |= ids
        return frozenset(depths)

    def block_of(self, name: str) -> int | None:
        """The depth of the block that a parameter lies in, counted from 0."""
        for depth, block in enumerate(self.blocks):
            if name.startswith(f"{block}."):
                return depth
        return None


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside the wrappers of `torch.compile` and of data-parallel training."""
    inner: Any = model
    while True:
        for name in ("_orig_mod", "module"):
            wrapped = getattr(inner, name, None)
            if isinstance(wrapped, nn.Module) and _is_wrapper(inner, name):
                inner = wrapped
                break
        else:
            return cast("nn.Module", inner)


def called_module(model: nn.Module) -> nn.Module:
    """The module that each call of a model reaches, also one through `model.module`."""
    inner: Any = model
    return inner.module if type(model).__name__ == "DistributedDataParallel" else model


def study(model: nn.Module) -> Anatomy:
    """The parts of a model."""
    outermost, model = model, unwrap(model)
    modules = named_modules(model)
    blocks = dict(_blocks(model, modules))
    embeddings = {name: part for name, part in modules.items() if isinstance(part, nn.Embedding)}
    norms = {
        name: Norm(module, facts)
        for name, module in modules.items()
        if (facts := _norm_facts(module)) is not None
    }
    parameters = _trained(model)
    embedding_ids = {id(module.weight) for module in embeddings.values()}
    matrices = tuple(
        name
        for name, parameter in parameters.items()
        if parameter.ndim >= 2
        and id(parameter) not in embedding_ids
        and (not blocks or any(name.startswith(f"{block}.") for block in blocks))
    )
    sharded = any(
        type(module).__name__ == "FullyShardedDataParallel" for module in outermost.modules()
    ) or any(local(parameter) is not parameter for parameter in parameters.values())
    kinds = _kinds(parameters)
    return Anatomy(model, blocks, norms, embeddings, parameters, matrices, sharded, kinds)


def bare(model: nn.Module) -> Anatomy:
    """A model whose parts are unknown, except for its parameters."""
    model = unwrap(model)
    parameters = _trained(model)
    return Anatomy(model, {}, {}, {}, parameters, (), kinds=_kinds(parameters))


def part_ids(model: nn.Module) -> tuple[object, ...]:
    """The modules and trained parameters: if they differ later, study the model again."""
    return (*map(id, model.modules()), *map(id, _trained(model).values()))


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not is_lazy(parameter) and not parameter.is_meta
    }


def _kinds(parameters: dict[str, nn.Parameter]) -> frozenset[torch.dtype]:
    return frozenset(parameter.dtype for parameter in parameters.values())


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process has; the whole tensor if it is not sharded."""
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
        is_nested = any(name.startswith(f"{stack_name}.") for stack_name in stack_names)
        if not is_nested and _is_stack(module):
            stack_names.append(name)
            for child, block in module.named_children():
                yield f"{name}.{child}" if name else child, block


def _n_parts(block: nn.Module) -> int:
    """How many parts a block has; some keep all of them in one list."""
    parts = list(block.children())
    is_list = len(parts) == 1 and isinstance(parts[0], nn.ModuleList)
    return len(list(parts[0].children())) if is_list else len(parts)


def _is_stack(module: nn.Module) -> bool:
    """Whether it is a list of modules of one class that hold attention or a norm; of one, both."""
    if not isinstance(module, nn.ModuleList | nn.Sequential):
        return False
    children = list(module.children())
    if len({type(child) for child in children}) != 1 or _n_parts(children[0]) < 2:
        return False
    class_names = [type(part).__name__.lower() for part in children[0].modules()]
    if class_names[0].endswith("attention"):
        class_names = class_names[1:]  # a list of attention layers alone is no list of blocks
    has_norm = any("norm" in name for name in class_names)
    mixes = any(mixer in name for name in class_names for mixer in _MIXERS)
    return (has_norm or mixes) if len(children) > 1 else (has_norm and mixes)


def _norm_facts(module: nn.Module) -> NormFacts | None:
    """The facts of a norm; None for a part that is no norm, or an unknown one."""
    facts = norm_facts(module)
    match facts:
        case NormFacts():
            return facts
        case SandwichFacts() | IdentityFacts():  # the two norms of a sandwich are parts themselves
            return None
        case UnknownFacts():
            derived = derive_norm_facts(module)
            return derived if isinstance(derived, NormFacts) else None
        case _:
            assert_never(facts)


def derive_norm_facts(module: nn.Module) -> NormFacts | UnknownFacts:
    """Facts of a norm that states none, from its class name and its attributes.

    In torch and Hugging Face a norm is over the features of one token and has an epsilon. Its
    weight is the gain, in Gemma and Nemotron the gain minus 1. T5's LayerNorm is a root mean
    square.
    """
    kind = type(module).__name__
    if ("LayerNorm" not in kind and "RMSNorm" not in kind) or hasattr(module, "facts"):
        return UnknownFacts(part=kind, reason="its class name is not one of a norm over features")
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
        gain_offset=1.0 if kind.startswith("Gemma") or kind.endswith("LayerNorm1P") else 0.0,
        bias="bias" if "bias" in parameters else None,
    )


def first_tensor(value: object) -> Tensor | None:
    """The first floating-point tensor of a module's arguments or output; None if it has none."""
    if isinstance(value, dict):
        value = tuple(cast("dict[str, object]", value).values())
    values = cast("tuple[object, ...]", value if isinstance(value, tuple | list) else (value,))
    tensors = (value for value in values if isinstance(value, Tensor))
    return next((tensor for tensor in tensors if tensor.is_floating_point()), None)


def decodes(model: nn.Module) -> bool | None:
    """Whether a pellucid model has a decoder; None for any other model."""
    facts = model_facts(model)
    match facts:
        case TransformerFacts():
            return facts.stacks != "encoder"
        case UnknownFacts():
            return None
        case _:
            assert_never(facts)


def table_of(model: Any) -> nn.Module | None:
    """The table of embeddings of a model of transformers; None without one."""
    with suppress(Exception):  # a user's model may raise any error
        table = model.get_input_embeddings()
        return table if isinstance(table, nn.Embedding) else None
    return None
