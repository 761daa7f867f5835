"""What moves where not all weights do, and the memory it takes: as torch has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid import config
from pellucid.counting import memory, parameter_count
from pellucid.counting.trained import count_trained
from pellucid.errors import ConfigError
from pellucid.model import assemble, assemble_trained
from pellucid.optim import assemble_optimiser, group
from support.models import BASE, VARIANTS, with_stack

CLASSES = config.ClassificationHead(classes=("a", "b"), pooling="mean", dropout=0.0, bias=True)
TRAINED: dict[str, config.Trained] = {
    "last block": config.LastLayers(count=1),
    "all blocks": config.LastLayers(count=2),
    "every layer": config.LoRA(rank=3, alpha=1.0, dropout=0.0, targets=("*",)),
    "some layers": config.LoRA(
        rank=2, alpha=1.0, dropout=0.0, targets=("query", "*.blocks.1.feed_forward.*")
    ),
}
MUON = config.Muon(
    learning_rate=0.01,
    momentum=0.9,
    weight_decay=0.0,
    newton_schulz_steps=2,
    rest=config.AdamW(learning_rate=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0),
)


@pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)
@pytest.mark.parametrize("described", VARIANTS.values(), ids=VARIANTS)
def test_as_many_weights_move_as_in_the_model(
    described: config.Transformer, trained: config.Trained
) -> None:
    for model_config in (described, replace(described, head=CLASSES)):
        model = assemble(model_config, seed=0)
        before = sum(parameter.numel() for parameter in model.parameters())
        if (message := _refusal(model_config, trained)) is not None:
            with pytest.raises(ConfigError, match=message):
                assemble_trained(model, trained, seed=0)
            continue
        assemble_trained(model, trained, seed=0)
        every = list(model.parameters())
        count = count_trained(model_config, trained)
        assert count.trained == sum(
            parameter.numel() for parameter in every if parameter.requires_grad
        )
        assert count.hidden == group(model.named_parameters()).hidden.count
        assert count.added == sum(parameter.numel() for parameter in every) - before


def _refusal(model: config.Transformer, trained: config.Trained) -> str | None:
    """Why these weights alone cannot be trained; None if they can."""
    (owners,) = (stack.owners for stack in model.stacks)
    match trained:
        case config.LoRA():
            if _reparametrised(model):
                return "reparametrisation"
            # a layer that shares weights goes by the name of the first that has them
            shares = any("blocks.1." in target for target in trained.targets) and 1 not in owners
            return "names no linear layer" if shares else None
        case config.LastLayers(count=count):
            shares = min(owners[-count:]) < len(owners) - count
            return "share weights with block" if shares else None


def _reparametrised(model: config.Transformer) -> bool:
    """No update can be added to a matrix that is computed from others."""
    return any(stack.reparametrisation is not None for stack in model.stacks)


@pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)
def test_what_is_frozen_takes_no_gradients_and_no_moments(trained: config.Trained) -> None:
    model = assemble(BASE, seed=0)
    assemble_trained(model, trained, seed=0)
    rows = {
        row.part: row.n_bytes
        for row in memory(BASE, MUON, sequences=2, precision="float32", trained=trained)
    }
    assert rows["weights"] == sum(parameter.nbytes for parameter in model.parameters())
    moves = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert rows["gradients"] == sum(parameter.nbytes for parameter in moves)
    for parameter in moves:
        parameter.grad = parameter.detach().clone()
    optimiser = assemble_optimiser(MUON, model.named_parameters())
    for part in optimiser.parts:
        part.step()
    state = optimiser.state_tensors().values()
    assert rows["optimiser"] == sum(tensor.nbytes for tensor in state if tensor.ndim)


def test_the_backward_pass_ends_at_the_last_block_that_moves() -> None:
    def activations(model_config: config.Transformer, count: int) -> int:
        trained = config.LastLayers(count=count)
        rows = memory(model_config, MUON, sequences=2, precision="float32", trained=trained)
        return sum(row.n_bytes for row in rows if row.part.endswith("activations"))

    untrained_part = memory(BASE, MUON, sequences=2, precision="float32")[-1].n_bytes
    assert BASE.decoder is not None
    # beyond the layers: the input of the last norm, and dropout's part of the embedding
    ends = 4 * 2 * BASE.context_length * BASE.d_model * (2 if BASE.decoder.dropout else 1)
    last = ends + (untrained_part - ends) // 2
    assert [activations(BASE, count) for count in (0, 1, 2)] == [0, last, untrained_part]
    # of layers that take turns the last ones count
    linear = config.LinearAttention(n_heads=4, d_head=4, qkv_bias=False, out_bias=False, chunk=3)
    mixed = with_stack(
        attention=config.Alternating(layers=(BASE.decoder.layers[0].attention, linear))
    )
    assert activations(mixed, 1) == activations(with_stack(attention=linear), 1)


def test_a_model_that_is_asked_takes_the_bytes_of_its_weights() -> None:
    plain = memory(BASE, MUON, sequences=2, precision="float32")
    with_frozen = memory(BASE, MUON, sequences=2, precision="float32", frozen_parameters=10)
    assert sum(row.n_bytes for row in with_frozen) == sum(row.n_bytes for row in plain) + 40
    assert parameter_count(BASE) * 4 == plain[0].n_bytes
