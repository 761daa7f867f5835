"""How ranks divide a model and its optimiser; what they cannot divide is refused first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints import describe, read_region
from pellucid.counting.layers import stacks as config_stacks
from pellucid.counting.layout import check_tensor
from pellucid.errors import ConfigError
from pellucid.model import CrossAttention, MultiHeadAttention, Transformer
from pellucid.parallel import Division, World
from pellucid.training import Precision
from pellucid.typed import named_modules

#: The methods of a model that objectives call.
METHODS = ("hidden_states", "encode", "class_logits", "states")
#: The linear layers of a block that share products, by the end of their path.
_PRODUCTS: dict[str, Literal["outputs", "inputs"]] = {
    "attention.query": "outputs",
    "attention.key": "outputs",
    "attention.value": "outputs",
    "attention.output_gate": "outputs",
    "attention.output": "inputs",
    "feed_forward.gate": "outputs",
    "feed_forward.up": "outputs",
    "feed_forward.down": "inputs",
}


def check_division(run: config.Run, ranks: int) -> None:
    """Refuse what the ranks cannot divide.

    Args:
        run: the config.
        ranks: how many processes train together; one alone divides nothing.

    Raises:
        ConfigError: names the key, and what to do instead.
    """
    settings = run.parallel
    config.count_parts(run.training, settings.count_data_ranks(ranks))
    if ranks == 1:
        return
    if run.training.rounding is not None:
        raise ConfigError(
            f'training.weights is "{run.training.weights}", and ranks would sum gradients in '
            "bfloat16, which loses small ones: pass --set training.weights=float32"
        )
    layers = [layer for stack in config_stacks(run.model) for layer in stack.stack.layer_counts]
    if settings.shard != "none" and any(
        isinstance(layer.feed_forward, config.Experts) for layer in layers
    ):
        raise ConfigError(
            "parallel.shard: no token of a rank may choose an expert, so a mixture of experts "
            "cannot be sharded: use --set parallel.shard=none"
        )
    if settings.shard != "none" and any(
        stack.stack.shared_layers is not None for stack in config_stacks(run.model)
    ):
        raise ConfigError(
            "parallel.shard: layers that share their weights (shared_layers) cannot be gathered "
            "one by one: use --set parallel.shard=none"
        )
    if run.penalties and (settings.shard != "none" or settings.tensor > 1):
        raise ConfigError(
            "penalties: shares of weights cannot be penalised: use --set parallel.shard=none and "
            "parallel.tensor=1"
        )
    if isinstance(run.optimiser, config.SGD) and (settings.shard != "none" or settings.tensor > 1):
        raise ConfigError(
            "parallel: torch's SGD cannot update shares of weights: use AdamW, or --set "
            "parallel.shard=none and parallel.tensor=1"
        )
    if settings.tensor > 1:
        reasons = [*_undividable(run)]
        if reasons:
            raise ConfigError(
                f"parallel.tensor: ranks cannot share the products of {reasons[0]}: use --set "
                "parallel.tensor=1"
            )
        check_tensor(run.model, settings.tensor)


def _undividable(run: config.Run) -> Iterator[str]:
    """The parts of a run whose products cannot be shared."""
    if isinstance(run.optimiser, config.Muon):
        yield "a model that Muon trains, because it needs whole matrices"
    if run.trained is not None:
        yield "a model with frozen weights (trained)"
    for stack in config_stacks(run.model):
        if stack.stack.reparametrisation is not None:
            yield "matrices that are computed from others (reparametrisation)"
        if stack.stack.shared_layers is not None:
            yield "layers that share their weights (shared_layers)"
        for layer in stack.stack.layer_counts:
            yield from _undividable_attention(layer.attention)
            yield from _undividable_layer(layer)
        if stack.stack.cross_attention is not None:
            yield from _undividable_attention(stack.stack.cross_attention)


def _undividable_attention(attention: config.OneAttention) -> Iterator[str]:
    match attention:
        case config.MultiHead():
            if attention.sinks or attention.output_gate == "heads":
                yield "attention with numbers of each head (sinks, output_gate)"
            if attention.dropout:
                yield "attention with dropout, which each rank would draw for its own heads"
            if attention.qk_norm is not None:
                yield "attention with norms of queries and keys (qk_norm)"
        case _:
            yield f"{type(attention).__name__} attention"


def _undividable_layer(layer: config.Layer) -> Iterator[str]:
    match layer.positions:
        case config.Rotary() | config.Learned() | config.Sinusoidal() | config.NoPositions():
            pass
        case positions:
            yield f"attention with {type(positions).__name__} positions, which differ by head"
    if isinstance(layer.feed_forward, config.Experts):
        yield "a mixture of experts"


def shard_model(model: Transformer, world: World, precision: Precision) -> None:
    """Leave this rank its share of a model.

    Args:
        model: the model, with the same weights on all ranks.
        world: the ranks.
        precision: of the products of matrices.
    """
    products = _find_products(model) if world.n_data < world.size else {}
    for name, module in named_modules(model).items():
        if f"{name}.query" in products:  # each rank has so many heads
            layer = cast("MultiHeadAttention | CrossAttention", module)
            layer.n_heads //= world.size // world.n_data
            layer.n_kv_heads //= world.size // world.n_data
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    world.shard(
        model,
        Division(
            groups=[block for stack in stacks for block in stack.blocks],
            methods=METHODS,
            products=products,
            precision=precision,
        ),
    )


def _find_products(model: Transformer) -> dict[str, Literal["outputs", "inputs"]]:
    return {
        name: side
        for name, module in named_modules(model).items()
        for path, side in _PRODUCTS.items()
        if isinstance(module, nn.Linear) and name.endswith(path)
    }


def fill_shares(model: Transformer, tensors: Mapping[str, Tensor], world: World) -> None:
    """Give this rank's shares of a model the values of saved tensors; it reads only these.

    Args:
        model: a model that the ranks share.
        tensors: of a checkpoint that was loaded, by name.
        world: the ranks.
    """
    expected = model.state_dict()
    with torch.no_grad():
        for name in tensors:
            target = expected[name]
            world.local(target).copy_(read_region(tensors, name, world.region(target)))


def own_moments(
    model: Transformer, tensors: Mapping[str, Tensor], names: Sequence[str], world: World
) -> dict[str, Tensor]:
    """This rank's shares of the saved memory of an optimiser; it reads only these.

    Args:
        model: a model that the ranks share.
        tensors: of a checkpoint that was loaded, as `parameter name::key`.
        names: of the tensors to read.
        world: the ranks.
    """
    parameters, shapes = dict(model.named_parameters()), describe(tensors)
    moments: dict[str, Tensor] = {}
    for full_name in names:
        parameter = parameters.get(full_name.partition("::")[0])
        if parameter is None or shapes[full_name].shape != parameter.shape:
            moments[full_name] = tensors[full_name]
            continue
        local = read_region(tensors, full_name, world.region(parameter)).to(parameter.device)
        moments[full_name] = world.as_share(local, parameter)
    return moments
