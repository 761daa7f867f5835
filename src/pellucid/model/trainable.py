"""Choose which weights of a model are trained: the last layers, or low-rank updates (LoRA)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import cast

from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.lora import LoRALinear
from pellucid.model.neural_memory import NeuralMemory
from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules

#: The parts that a classifier adds to a trained model; all of their weights are trained.
_NEW = ("classifier", "classifier_transform")


def train_last_layers(model: Transformer, count: int) -> None:
    """Freeze all but the last `count` blocks of the top stack, its final norm, and the head.

    A head that is the embedding stays frozen too. The running statistics of batch norms are not
    parameters, so training still changes them.

    Raises:
        ConfigError: there are fewer blocks, or nothing would be trained.
    """
    blocks = model.stack.blocks
    if count > len(blocks):
        raise ConfigError(
            f"trained.count is {count}, but the top stack has {len(blocks)} blocks: pass "
            "--set trained=none to train all weights"
        )
    used = model.stack.owners[len(blocks) - count :]
    if count and min(used) < len(blocks) - count:
        raise ConfigError(
            f"trained.count is {count}, but the last {count} of {len(blocks)} blocks share weights "
            f"with block {min(used) + 1}: train all weights with --set trained=none, or LoRA"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    top: list[nn.Module | None] = [*blocks[len(blocks) - count :], model.stack.final_norm]
    top += [model.head_transform, model.head, model.pooler]
    for module in top:
        for parameter in () if module is None else module.parameters():
            parameter.requires_grad_(True)
    if isinstance(model.head_bias, nn.Parameter):  # not the buffer of a fixed bias
        model.head_bias.requires_grad_(True)
    for parameter in _new_weights(model):
        parameter.requires_grad_(True)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            "trained.count is 0, and this model has no final norm and no head of its own (its head "
            "is the embedding): nothing would be trained; set it to at least 1"
        )


def add_lora(
    model: Transformer,
    *,
    rank: int,
    alpha: float,
    dropout: float,
    targets: Iterable[str],
    seed: int,
) -> None:
    """Replace each linear layer that a target names by a `LoRALinear`; freeze all other weights.

    The initial update of a layer depends on `seed` and the layer's name only. Layers that share a
    weight share its update too. A new classification head is still trained.

    Args:
        model: changed in place.
        rank: of the updates.
        alpha: the updates are multiplied by alpha / rank.
        dropout: of the updates' input.
        targets: names of layers, see `names_matching`.
        seed: of the initial updates.

    Raises:
        ConfigError: a target names no layer, a layer is reparametrised, or the model has adapters.
    """
    if adapters(model):
        raise ConfigError("this model has adapters already: merge them before you add others")
    targeted = _match_targets(adaptable(model), list(targets))
    for name, layer in targeted.items():
        if parametrize.is_parametrized(layer):
            raise ConfigError(
                f"trained.targets names {name}, whose matrix is computed from other parameters "
                "(weight norm or spectral norm), so LoRA cannot adapt it: set the stack's "
                "`reparametrisation` to none, or train all weights with --set trained=none"
            )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    paths = _paths_by_weight(model)
    for name, layer in targeted.items():
        layer_seed = (
            int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little") >> 1
        )
        owner: LoRALinear | None = None
        for path in paths[_weight_id(layer)]:
            place, _, leaf = path.rpartition(".")
            base = cast("nn.Linear", model.get_submodule(path))
            adapted = LoRALinear(base, rank=rank, alpha=alpha, dropout=dropout, seed=layer_seed)
            owner = owner or adapted
            adapted.lora_down, adapted.lora_up = owner.lora_down, owner.lora_up
            setattr(model.get_submodule(place), leaf, adapted)
    for parameter in _new_weights(model):
        parameter.requires_grad_(True)


def adaptable(model: Transformer) -> dict[str, nn.Linear]:
    """The linear layers that LoRA can adapt, by path; one of several that share a weight.

    It cannot adapt the head and the first state of a memory: the model reads their matrices without
    calling the layers. The classification head is trained itself.
    """
    modules = named_modules(model)
    owners = {paths[0] for paths in _paths_by_weight(model).values()}
    memories = (m.memory for m in modules.values() if isinstance(m, NeuralMemory))
    uncalled = [model.head, *memories]
    return {
        name: module
        for name, module in modules.items()
        if isinstance(module, nn.Linear)
        and name in owners
        and not any(module is skipped for skipped in uncalled)
        and name.split(".")[0] not in _NEW
    }


def adapters(model: nn.Module) -> dict[str, LoRALinear]:
    """The adapted layers by path; one of several that share an update."""
    layers: dict[int, tuple[str, LoRALinear]] = {}
    for name, layer in _adapted_modules(model).items():
        layers.setdefault(id(layer.lora_up), (name, layer))
    return dict(layers.values())


def _adapted_modules(model: nn.Module) -> dict[str, LoRALinear]:
    return {n: m for n, m in named_modules(model).items() if isinstance(m, LoRALinear)}


def _paths_by_weight(model: nn.Module) -> dict[int, list[str]]:
    """The paths of the linear layers with each weight, by its id, the first one first."""
    paths: dict[int, list[str]] = {}
    for name, module in named_modules(model).items():
        if isinstance(module, nn.Linear):
            paths.setdefault(_weight_id(module), []).append(name)
    return paths


def _weight_id(layer: nn.Linear) -> int:
    """The id of a layer's weight; of the layer if the weight is computed anew at each call."""
    return id(layer if parametrize.is_parametrized(layer) else layer.weight)


@contextmanager
def without_adapters(model: nn.Module) -> Generator[None]:
    """Within the context, `model` computes as its base does: one model, two policies.

    Contexts can be nested. A classification head is not an adapter, so it stays active.

    Raises:
        PellucidError: the model has no adapters.
    """
    layers = list(_adapted_modules(model).values())
    if not layers:
        raise PellucidError(
            "this model has no adapters, so it is the same without them: train it with "
            'trained = {kind = "LoRA", ...}, or use a copy as the reference'
        )
    previous = [layer.active for layer in layers]
    try:
        for layer in layers:
            layer.active = False
        yield
    finally:
        for layer, active in zip(layers, previous, strict=True):
            layer.active = active


def merge(model: nn.Module) -> None:
    """Make every update part of its layer's weights, until `unmerge`."""
    owners: dict[int, LoRALinear] = {}
    for layer in _adapted_modules(model).values():
        owner = owners.setdefault(id(layer.weight), layer)
        if owner is layer:
            layer.merge()
        else:  # the weight they share has the update already
            layer.unmerged_weight = owner.unmerged_weight


def unmerge(model: nn.Module) -> None:
    """Restore the original weights of every layer, bit for bit."""
    for layer in _adapted_modules(model).values():
        layer.unmerge()


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The state dict of an equal model without adapters; the model itself does not change."""
    layers = adapters(model)
    state: dict[str, Tensor] = {
        name: tensor.detach()
        for name, tensor in model.state_dict().items()
        if not is_adapter_tensor(name)
    }
    for name, layer in layers.items():
        state[f"{name}.weight"] = layer.folded()
    return state


def is_adapter_tensor(name: str) -> bool:
    """Whether a tensor of a state dict belongs to an adapter, by its name."""
    return name.endswith((".lora_down", ".lora_up"))


def names_matching(names: Iterable[str], target: str) -> list[str]:
    """The paths that match a target; a target without a dot is compared with their last part."""
    return [
        name
        for name in names
        if fnmatchcase(name if "." in target else name.rpartition(".")[2], target)
    ]


def _match_targets(layers: dict[str, nn.Linear], targets: list[str]) -> dict[str, nn.Linear]:
    matches: set[str] = set()
    for target in targets:
        names = names_matching(layers, target)
        if not names:
            raise ConfigError(
                f"trained.targets: {target!r} names no linear layer of this model that can be "
                f"adapted; those that can: {', '.join(_patterns(layers))}. Embeddings, the head "
                "and the first state of a memory are read as tables, and cannot be targets"
            )
        matches.update(names)
    return {name: layer for name, layer in layers.items() if name in matches}


def _patterns(names: Iterable[str]) -> list[str]:
    """The distinct paths with a star for the number of the block."""
    return list(dict.fromkeys(re.sub(r"\.blocks\.\d+\.", ".blocks.*.", name) for name in names))


def _new_weights(model: nn.Module) -> Iterator[nn.Parameter]:
    for name, parameter in model.named_parameters():
        if name.split(".")[0] in _NEW:
            yield parameter
