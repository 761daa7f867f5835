"""Which weights of a model move: all but a few frozen, or thin updates beside them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.lora import LoRALinear
from pellucid.model.neural_memory import NeuralMemory
from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules

#: What is new in a model that was trained for something else; it is trained whole.
_NEW = "classifier"


def train_last_layers(model: Transformer, count: int) -> None:
    """Freeze all but the last `count` blocks of the top stack, its final norm, and the head.

    A head that is the embedding stays frozen with it. Running statistics of batch norms are no
    parameters: they go on moving while the model trains.

    Raises:
        ConfigError: there are fewer blocks, or nothing would be left to train.
    """
    blocks = model.stack.blocks
    if count > len(blocks):
        raise ConfigError(
            f"trained.count is {count}, but the top stack has {len(blocks)} blocks: pass "
            "--set trained=none to train all weights"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    top: list[nn.Module | None] = [*blocks[len(blocks) - count :], model.stack.final_norm]
    top += [model.head_transform, model.head, model.pooler]
    for module in top:
        for parameter in () if module is None else module.parameters():
            parameter.requires_grad_(True)
    if model.head_bias is not None:
        model.head_bias.requires_grad_(True)
    for parameter in _new_weights(model):
        parameter.requires_grad_(True)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            "trained.count is 0, and this model has no final norm and no head of its own (its head "
            "is the embedding): nothing would be trained; say at least 1"
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
    """Put a `LoRALinear` in the place of each linear layer that a target names; freeze the rest.

    What the update of a layer starts from depends on `seed` and the layer's name, and not on which
    other layers are adapted. Weights that are new (the classification head) stay trained whole.

    Raises:
        ConfigError: a target names no layer, a layer is reparametrised, or the model has adapters.
    """
    if adapters(model):
        raise ConfigError("this model has adapters already: merge them before there are others")
    chosen = _matched(adaptable(model), list(targets))
    for name, layer in chosen.items():
        if parametrize.is_parametrized(layer):
            raise ConfigError(
                f"trained.targets names {name}, whose matrix is computed from others (weight norm "
                "or spectral norm): no update can stand beside it; set the stack's "
                "`reparametrisation` to none, or train all weights with --set trained=none"
            )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, layer in chosen.items():
        layer_seed = (
            int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little") >> 1
        )
        adapted = LoRALinear(layer, rank=rank, alpha=alpha, dropout=dropout, seed=layer_seed)
        place, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(place), leaf, adapted)
    for parameter in _new_weights(model):
        parameter.requires_grad_(True)


def adaptable(model: Transformer) -> dict[str, nn.Linear]:
    """The linear layers that can have an update beside them, by path.

    Not the head and not the first state of a memory: their matrices are read and not called, so an
    update beside them would be passed by. Not the classification head: it is trained whole.
    """
    modules = named_modules(model)
    passed_by = [model.head, *(m.memory for m in modules.values() if isinstance(m, NeuralMemory))]
    return {
        name: module
        for name, module in modules.items()
        if isinstance(module, nn.Linear)
        and not any(module is skipped for skipped in passed_by)
        and name.split(".")[0] != _NEW
    }


def adapters(model: nn.Module) -> dict[str, LoRALinear]:
    """The adapted layers by path."""
    return {n: m for n, m in named_modules(model).items() if isinstance(m, LoRALinear)}


@contextmanager
def without_adapters(model: nn.Module) -> Generator[None]:
    """Within it, `model` answers as the base it was adapted from: one model, two policies.

    It may stand within another. A classification head is no adapter: it stays as it is.

    Raises:
        PellucidError: the model has no adapters, and would be its own base.
    """
    layers = list(adapters(model).values())
    if not layers:
        raise PellucidError(
            "this model has no adapters, so that without them it is what it is with them: train "
            'it with trained = {kind = "LoRA", ...}, or take a copy as the reference'
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
    for layer in adapters(model).values():
        layer.merge()


def unmerge(model: nn.Module) -> None:
    """Put the weights before the merge back, bit for bit."""
    for layer in adapters(model).values():
        layer.unmerge()


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The state of a plain model that says the same: every update folded in, no adapters left.

    The model itself stays as it is.
    """
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
    """Whether the tensor of this name in a state dict belongs to an adapter alone."""
    return name.endswith((".lora_down", ".lora_up"))


def names_matching(names: Iterable[str], target: str) -> list[str]:
    """The paths among `names` that a target means: without a dot, it is met at their ends."""
    return [
        name
        for name in names
        if fnmatchcase(name if "." in target else name.rpartition(".")[2], target)
    ]


def _matched(layers: dict[str, nn.Linear], targets: list[str]) -> dict[str, nn.Linear]:
    chosen: set[str] = set()
    for target in targets:
        names = names_matching(layers, target)
        if not names:
            raise ConfigError(
                f"trained.targets: {target!r} names no linear layer of this model that can be "
                f"adapted; those that can: {', '.join(_patterns(layers))}. Embeddings, the head "
                "and the first state of a memory are read as tables, and cannot be targets"
            )
        chosen.update(names)
    return {name: layer for name, layer in layers.items() if name in chosen}


def _patterns(names: Iterable[str]) -> list[str]:
    """Paths with a star for the number of the block, each once."""
    return list(dict.fromkeys(re.sub(r"\.blocks\.\d+\.", ".blocks.*.", name) for name in names))


def _new_weights(model: nn.Module) -> Iterator[nn.Parameter]:
    for name, parameter in model.named_parameters():
        if name.split(".")[0] == _NEW:
            yield parameter
