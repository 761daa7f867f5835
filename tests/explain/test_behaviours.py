"""Heads are named by what they do: attention of a known shape gets its name, an even look none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.explain import grow_tree, name_heads
from pellucid.explain.why.behaviours import BEHAVIOURS, Behaviour
from pellucid.model import Transformer
from support.models import BASE, PAIRS, build, with_stack


def test_an_even_look_scores_chance_and_has_no_name() -> None:
    model = build(with_stack(positions=config.NoPositions()))
    for block in model.decoder.blocks:
        block.attention.query.weight.data.zero_()
    for head in name_heads(model).heads:
        assert head.names == ()
        for behaviour in head.behaviours:
            assert behaviour.score == pytest.approx(behaviour.chance)


def test_a_head_that_looks_at_the_token_before_is_named_so() -> None:
    """Queries and keys of one-hot positions, a key one place ahead."""
    names = {head.head: head for head in name_heads(looking_back(1)).heads}
    assert names["L0.H0"].names == ("previous token",)
    scores = {behaviour.name: behaviour.score for behaviour in names["L0.H0"].behaviours}
    assert scores["previous token"] > 0.99


def looking_back(distance: int) -> Transformer:
    """One layer, one head, whose query at place t matches the key at place t - distance."""
    width = 16
    model = build(
        replace(
            with_stack(
                n_layers=1,
                positions=config.Learned(),
                attention=replace(BASE.decoder.attention, n_heads=1, n_kv_heads=1, d_head=width),
                norm=config.RMSNorm(eps=1e-6),
            ),
            d_model=width,
        )
    )
    model.token_embedding.weight.data.zero_()
    model.decoder.positions.embedding.weight.data.copy_(torch.eye(width))
    attention = model.decoder.blocks[0].attention
    attention.key.weight.data.copy_(100 * torch.eye(width))
    attention.query.weight.data.copy_(torch.eye(width).roll(-distance, 0))
    return model


def test_a_fixed_distance_is_no_induction() -> None:
    for head in name_heads(looking_back(4)).heads:
        assert "induction" not in head.names


def test_a_run_is_measured_on_its_own_held_out_text(trained: Path) -> None:
    named_heads = name_heads(pellucid.load(trained))
    assert named_heads.text == "held-out text of the run"
    assert [behaviour.name for behaviour in named_heads.heads[0].behaviours] == list(BEHAVIOURS)
    assert all(
        0 <= behaviour.score <= 1 for head in named_heads.heads for behaviour in head.behaviours
    )


def test_above_chance_is_the_way_to_one() -> None:
    assert Behaviour(name="induction", score=0.6, chance=0.2).above_chance == pytest.approx(0.5)


def test_a_pair_of_texts_is_refused() -> None:
    with pytest.raises(pellucid.PellucidError, match="two texts"):
        name_heads(build(next(iter(PAIRS.values()))))


@pytest.mark.nightly
def test_two_layers_of_attention_trained_on_repeats_have_an_induction_head() -> None:
    """As published: a previous-token head in the first layer, induction heads in the second."""
    model = trained_on_repeats(steps=600)
    names = {head.head: head.names for head in name_heads(model).heads}
    assert any("previous token" in names[f"L0.H{head}"] for head in range(4)), names
    assert not any("induction" in names[f"L0.H{head}"] for head in range(4)), names
    induction = [head for head, behaviours in names.items() if "induction" in behaviours]
    assert induction
    # what comes next is read from the token after the same token before
    half = torch.randperm(32, generator=torch.Generator().manual_seed(5))[:9].tolist()
    trace = pellucid.trace(model, ids=[*half, *half[:6]])
    attribution = trace.why()
    assert attribution.rivals.ids[0] == half[6]
    assert attribution.sources[0].name in induction
    assert attribution.sources[0].key == 6
    branch = max(grow_tree(trace, attribution).children, key=lambda child: abs(child.share))
    assert (branch.name in induction, branch.token) == (True, 6)


def trained_on_repeats(steps: int) -> Transformer:
    """Two layers of attention alone, trained on random tokens that repeat at changing periods.

    Source:
        Olsson et al. 2022, "In-context Learning and Induction Heads".
    """
    torch.manual_seed(0)
    attention = replace(BASE.decoder.attention, n_heads=4, n_kv_heads=4, d_head=16)
    stack = with_stack(positions=config.Learned(), attention=attention)
    wide = replace(
        stack,
        vocab_size=32,
        context_length=32,
        d_model=64,
        initialisation=config.Initialisation(
            weights=config.Normal(std=0.05), embedding_std=0.5, outputs="plain"
        ),
    )
    model = build(wide, double=False)
    for block in model.decoder.blocks:
        for parameter in block.feed_forward.parameters():
            parameter.data.zero_()
            parameter.requires_grad_(False)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=3e-3, weight_decay=0.01)
    for _ in range(steps):
        period = int(torch.randint(4, 17, ()))
        rows = torch.randint(32, (64, period)).repeat(1, 32 // period + 1)[:, :32]
        logits = model(rows)[:, period:-1]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), rows[:, period + 1 :].flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model
