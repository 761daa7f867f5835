"""Adapters and frozen weights: which weights move, which stay, and which come back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.model import (
    LoRALinear,
    Transformer,
    adaptable,
    adapters,
    assemble,
    assemble_trained,
    merge,
    merged,
    unmerge,
    without_adapters,
)
from pellucid.model.dropout import dropout
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, random_ids, with_stack

EVERY = config.LoRA(rank=3, alpha=6.0, dropout=0.0, targets=("*",))
QUERY = replace(EVERY, targets=("query",))
REPARAMETRISED = {"weight norm", "spectral norm"}
MODELS = {
    **{name: m for name, m in VARIANTS.items() if name not in REPARAMETRISED},
    **{f"encoder, {name}": m for name, m in ENCODERS.items()},
    **{f"pair, {name}": m for name, m in PAIRS.items()},
}
IDS = random_ids(2, 9)


def answer(model: Transformer) -> Tensor:
    """Logits, of a model of any kind."""
    if model.encoder is not None and model.decoder is not None:
        return model(IDS, encoded=model.encode(IDS.flip(1)))
    return model(IDS)


def stir(model: Transformer, seed: int = 5) -> None:
    """Give every update a size, as training would."""
    generator = torch.Generator().manual_seed(seed)
    for layer in adapters(model).values():
        with torch.no_grad():
            layer.lora_up.normal_(0.0, 0.3, generator=generator)


def frozen(model: config.Transformer, *, double: bool = True) -> Transformer:
    """The base, frozen: torch takes another route for trainable tensors, and rounds otherwise."""
    return build(model, double=double).requires_grad_(False)


def adapted(
    model: config.Transformer, trained: config.Trained = EVERY, *, double: bool = True
) -> Transformer:
    built = build(model, double=double)
    assemble_trained(built, trained, seed=4)
    return built


def trainable(model: Transformer) -> set[str]:
    return {name for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("name", MODELS)
def test_fresh_adapter_changes_nothing(name: str) -> None:
    for double in (True, False):
        with torch.no_grad():
            base = answer(frozen(MODELS[name], double=double))
            assert torch.equal(answer(adapted(MODELS[name], double=double)), base)


@pytest.mark.parametrize("name", MODELS)
def test_merged_says_the_same_and_unmerged_is_what_it_was(name: str) -> None:
    model = adapted(MODELS[name])
    stir(model)
    before = {n: p.clone() for n, p in model.state_dict().items()}
    with torch.no_grad():
        with_adapters = answer(model)
        base = answer(frozen(MODELS[name]))
        assert not torch.allclose(with_adapters, base, atol=1e-3)
        merge(model)
        torch.testing.assert_close(answer(model), with_adapters, rtol=1e-9, atol=1e-9)
        with without_adapters(model):
            assert torch.equal(answer(model), base)
        unmerge(model)
        assert torch.equal(answer(model), with_adapters)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[n], after[n]) for n in before)


@pytest.mark.parametrize("name", MODELS)
def test_plain_model_with_the_merged_weights_says_the_same(name: str) -> None:
    model = adapted(MODELS[name])
    stir(model)
    plain = build(MODELS[name], seed=9)
    plain.load_state_dict(merged(model))
    with torch.no_grad():
        torch.testing.assert_close(answer(plain), answer(model), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_only_adapters_get_gradients(name: str) -> None:
    model = adapted(MODELS[name])
    stir(model)
    answer(model).square().sum().backward()
    names_with_grad = {n for n, p in model.named_parameters() if p.grad is not None}
    expected_names = {f"{n}.{m}" for n in adapters(model) for m in ("lora_down", "lora_up")}
    assert trainable(model) == expected_names
    # a pooler has no part in the logits
    assert names_with_grad == {n for n in expected_names if not n.startswith("pooler.")}


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_that_can_be_adapted_is_called(name: str) -> None:
    """An update of a matrix that is only read would be skipped in silence."""
    model = adapted(MODELS[name])
    called_ids: set[int] = set()
    for layer in adapters(model).values():
        layer.register_forward_hook(lambda m, *_: called_ids.add(id(m)))
    answer(model)
    passed_by = {n for n, m in adapters(model).items() if id(m) not in called_ids}
    assert passed_by <= {"pooler"}


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    shape=st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 9)),
    alpha=st.floats(0.01, 100.0),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
)
def test_unmerge_gives_back_the_same_bits(
    seed: int, shape: tuple[int, int, int], alpha: float, size: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(seed)
    rank, inputs, outputs = shape
    base = nn.Linear(inputs, outputs).to(dtype)
    layer = LoRALinear(base, rank=rank, alpha=alpha, dropout=0.0, seed=seed)
    nn.init.normal_(layer.lora_up, std=size)
    before = layer.weight.detach().clone()
    for _ in range(2):
        layer.merge()
        layer.merge()
        layer.unmerge()
        layer.unmerge()
    assert torch.equal(layer.weight, before)


def test_update_is_the_formula_and_its_gradients_are_the_hand_derived_ones() -> None:
    torch.manual_seed(0)
    layer = LoRALinear(nn.Linear(5, 4).double(), rank=2, alpha=3.0, dropout=0.0, seed=1)
    nn.init.normal_(layer.lora_up)
    x, g = torch.randn(7, 5).double(), torch.randn(7, 4).double()
    (layer(x) * g).sum().backward()
    weight = layer.weight + 1.5 * layer.lora_up @ layer.lora_down
    torch.testing.assert_close(layer(x), x @ weight.T + layer.bias)
    # what a whole matrix would get is g^T x; each thin one sees it through the other
    full_gradient = g.T @ x
    torch.testing.assert_close(layer.lora_up.grad, 1.5 * full_gradient @ layer.lora_down.T)
    torch.testing.assert_close(layer.lora_down.grad, 1.5 * layer.lora_up.T @ full_gradient)


def test_first_step_of_a_fresh_adapter_goes_down_the_whole_gradient_projected() -> None:
    """With up = 0, one step of up moves W along -G down^T down, G the gradient of W itself."""
    torch.manual_seed(0)
    base = nn.Linear(5, 4, bias=False).double()
    x, y = torch.randn(9, 5).double(), torch.randn(9, 4).double()
    (base(x) - y).square().sum().backward()
    assert base.weight.grad is not None
    full_gradient, before = base.weight.grad.clone(), base.weight.detach().clone()
    layer = LoRALinear(base, rank=2, alpha=2.0, dropout=0.0, seed=1)
    layer.weight.requires_grad_(False)
    (layer(x) - y).square().sum().backward()
    assert layer.lora_down.grad is not None
    assert not layer.lora_down.grad.any()
    torch.optim.SGD([layer.lora_up, layer.lora_down], lr=0.01).step()
    change = layer.folded() - before
    torch.testing.assert_close(change, -0.01 * full_gradient @ layer.lora_down.T @ layer.lora_down)


def test_updates_of_full_rank_learn_what_a_whole_matrix_learns() -> None:
    torch.manual_seed(0)
    x, truth = torch.randn(64, 4).double(), torch.randn(3, 4).double()
    base = nn.Linear(4, 3, bias=False).double()
    layer = LoRALinear(base, rank=3, alpha=3.0, dropout=0.0, seed=1)
    layer.weight.requires_grad_(False)
    optimiser = torch.optim.Adam([layer.lora_up, layer.lora_down], lr=0.05)
    for _ in range(800):
        optimiser.zero_grad()
        (layer(x) - x @ truth.T).square().mean().backward()
        optimiser.step()
    torch.testing.assert_close(layer.folded(), truth, rtol=0, atol=1e-4)


def test_down_starts_as_kaiming_uniform_and_depends_on_the_seed_alone() -> None:
    first = adapted(BASE)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    adapted_again = adapted(BASE)
    assert torch.equal(torch.get_rng_state(), state)
    other = build(BASE)
    assemble_trained(other, EVERY, seed=5)
    single_target = build(BASE)
    assemble_trained(single_target, replace(EVERY, targets=("decoder.blocks.1.*.up",)), seed=4)
    for name, layer in adapters(first).items():
        bound = layer.in_features**-0.5
        assert 0.6 * bound < float(layer.lora_down.detach().abs().max()) <= bound
        assert torch.equal(layer.lora_down, adapters(adapted_again)[name].lora_down)
        assert not torch.equal(layer.lora_down, adapters(other)[name].lora_down)
    name = "decoder.blocks.1.feed_forward.up"
    assert list(adapters(single_target)) == [name]
    assert torch.equal(adapters(single_target)[name].lora_down, adapters(first)[name].lora_down)


def test_without_adapters_is_the_base_and_nests_and_survives_errors() -> None:
    base, model = frozen(BASE), adapted(BASE)
    stir(model)
    with torch.no_grad():
        with_adapters, expected = answer(model), answer(base)
        with without_adapters(model):
            assert torch.equal(answer(model), expected)
            with without_adapters(model):
                assert torch.equal(answer(model), expected)
            assert torch.equal(answer(model), expected)
        assert torch.equal(answer(model), with_adapters)
        with pytest.raises(ZeroDivisionError), without_adapters(model):
            _ = 1 / 0
        assert torch.equal(answer(model), with_adapters)


def test_without_adapters_refuses_a_model_that_has_none() -> None:
    with pytest.raises(PellucidError, match="has no adapters"), without_adapters(build(BASE)):
        pass


def test_dropout_is_of_what_down_reads_and_only_in_training() -> None:
    layer = LoRALinear(nn.Linear(6, 4), rank=2, alpha=2.0, dropout=0.5, seed=0)
    nn.init.normal_(layer.lora_up)
    x = torch.randn(3, 6)
    layer.train()
    torch.manual_seed(1)
    outputs = layer(x)
    torch.manual_seed(1)
    dropped = dropout(x, 0.5)
    plain = nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(outputs, plain + dropped @ layer.lora_down.T @ layer.lora_up.T)
    layer.eval()
    torch.testing.assert_close(layer(x), plain + x @ layer.lora_down.T @ layer.lora_up.T)


def test_state_of_a_base_fits_and_state_of_an_adapted_model_comes_back() -> None:
    model = adapted(BASE)
    stir(model)
    lacks = model.load_state_dict(build(BASE).state_dict(), strict=False)
    assert not lacks.unexpected_keys
    assert all(".lora_" in name for name in lacks.missing_keys)
    with torch.device("meta"):
        empty = assemble(BASE, seed=0)
        assemble_trained(empty, EVERY, seed=0)
    empty.load_state_dict(model.state_dict(), assign=True)
    empty.eval()
    with torch.no_grad():
        assert torch.equal(answer(empty), answer(model))
    assert trainable(empty) == trainable(model)


def test_state_of_a_merged_model_has_the_weights_before() -> None:
    model = adapted(BASE)
    stir(model)
    before = {n: t.clone() for n, t in model.state_dict().items()}
    plain = merged(model)
    merge(model)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert all(torch.equal(t, plain[n]) for n, t in merged(model).items())
    with pytest.raises(PellucidError, match="unmerge first"):
        model.load_state_dict(before)


def test_copy_of_an_adapted_model_is_its_own() -> None:
    model = adapted(BASE)
    stir(model)
    copy = deepcopy(model)
    merge(copy)
    with torch.no_grad(), without_adapters(copy):
        expected = answer(frozen(BASE))
        assert torch.equal(answer(copy), expected)
        assert not torch.equal(answer(model), expected)
    assert all(layer.unmerged_weight is None for layer in adapters(model).values())


@pytest.mark.parametrize("merge_first", [False, True])
def test_autocast_says_nearly_the_same(merge_first: bool) -> None:
    model = adapted(BASE, double=False)
    stir(model)
    with torch.no_grad():
        plain = answer(model)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if merge_first:
                merge(model)
            narrow = answer(model)
    assert all(layer.weight.dtype == torch.float32 for layer in adapters(model).values())
    assert float((narrow - plain).abs().max() / plain.abs().max()) < 0.05
    folded = merged(model)
    for name, layer in adapters(model).items():
        exact = layer.folded()
        assert torch.equal(folded[f"{name}.weight"], exact)


def test_compiled_blocks_follow_the_switch_and_the_merge() -> None:
    """In a process of its own: here shapes are checked, by what torch cannot compile."""
    script = """if True:
        import torch
        from pellucid import config
        from pellucid.model import *
        from support.models import BASE, build, random_ids
        model, ids = build(BASE), random_ids(2, 9)
        lora = config.LoRA(rank=3, alpha=6.0, dropout=0.0, targets=("query", "up"))
        assemble_trained(model, lora, seed=4)
        for layer in adapters(model).values():
            torch.nn.init.normal_(layer.lora_up)
        said = model(ids)
        with without_adapters(model):
            base = model(ids)
        assert not torch.allclose(said, base)
        for block in model.stack.blocks:
            block.compile(backend="eager", fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(model(ids), said)
            with without_adapters(model):
                torch.testing.assert_close(model(ids), base)
            merge(model)
            torch.testing.assert_close(model(ids), said)
            unmerge(model)
        model(ids).sum().backward()
        assert all(layer.lora_down.grad is not None for layer in adapters(model).values())
    """
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join((str(tests.parent / "src"), str(tests)))
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("query", 4),
        ("*.cross_attention.query", 2),
        ("*.attention.query", 4),
        ("decoder.blocks.1.*", 10),
        ("q*", 6),
        ("*", 32),
    ],
)
def test_targets_are_ends_without_a_dot_and_whole_paths_with_one(target: str, found: int) -> None:
    model = build(PAIRS["t5"])
    assemble_trained(model, replace(EVERY, targets=(target,)), seed=0)
    n_expected = found + (2 if target == "query" else 0)
    assert len(adapters(model)) == n_expected, list(adapters(model))


@pytest.mark.parametrize(
    "target", ["qurey", "token_embedding", "head", "memory", "attention.query"]
)
def test_target_that_names_no_layer_is_refused_with_those_there_are(target: str) -> None:
    model = build(VARIANTS["memory"])
    with pytest.raises(ConfigError, match=r"decoder\.blocks\.\*\.attention\.query, ") as refused:
        assemble_trained(model, replace(EVERY, targets=("query", target)), seed=0)
    assert repr(target) in str(refused.value)
    assert "cannot be targets" in str(refused.value)
    assert not adapters(model)
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("name", sorted(REPARAMETRISED))
def test_reparametrised_layer_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="computed from other parameters"):
        assemble_trained(build(VARIANTS[name]), QUERY, seed=0)


def test_second_adapter_is_refused() -> None:
    with pytest.raises(ConfigError, match="has adapters already"):
        assemble_trained(adapted(BASE), QUERY, seed=0)


def test_classification_head_is_trained_whole() -> None:
    for trained in (EVERY, config.LastLayers(count=0)):
        model = build(BASE)
        model.classifier = nn.Linear(16, 3)
        assemble_trained(model, trained, seed=0)
        assert type(model.classifier) is nn.Linear
        assert {"classifier.weight", "classifier.bias"} <= trainable(model)
        assert "classifier" not in adaptable(model)


def test_nothing_chosen_trains_everything() -> None:
    model = build(BASE)
    assemble_trained(model, None, seed=0)
    assert all(p.requires_grad for p in model.parameters())


def last(model: config.Transformer, count: int) -> set[str]:
    built = build(model)
    assemble_trained(built, config.LastLayers(count=count), seed=0)
    return trainable(built)


def starting(names: set[str], *prefixes: str) -> set[str]:
    return {name for name in names if name.startswith(prefixes)}


def test_last_layers_are_the_last_blocks_the_final_norm_and_the_head() -> None:
    every = {name for name, _ in build(BASE).named_parameters()}
    top = starting(every, "decoder.final_norm.", "head.")
    assert len(top) == 3
    assert last(BASE, 0) == top
    assert last(BASE, 1) == top | starting(every, "decoder.blocks.1.")
    assert last(BASE, 2) == top | starting(every, "decoder.blocks.")


def test_tied_head_stays_frozen_with_the_embedding() -> None:
    names = last(VARIANTS["tied and scaled"], 1)
    assert starting(names, "decoder.blocks.1.", "decoder.final_norm.") == names


def test_last_layers_of_a_pair_are_those_of_the_decoder() -> None:
    assert not starting(last(PAIRS["t5"], 2), "encoder.", "token_embedding", "decoder.positions")


def test_last_layers_of_an_encoder_have_its_whole_head() -> None:
    names = last(ENCODERS["bert"], 1)
    for part in ("head_bias", "head_transform.", "pooler.", "encoder.blocks.1."):
        assert starting(names, part), part
    assert not starting(names, "token_embedding", "segment_embedding", "encoder.blocks.0.")


def test_last_layers_that_are_not_there_or_none_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="has 2 blocks"):
        last(BASE, 3)
    bare = replace(
        with_stack(residual=config.PostNorm(), final_norm=False),
        embedding=config.Embedding(tied=True, scaled=False),
    )
    with pytest.raises(ConfigError, match="nothing would be trained"):
        last(bare, 0)


def test_frozen_weights_do_not_move_and_take_no_memory() -> None:
    from pellucid.optim import assemble_optimiser, gate

    for optimiser in optimisers():
        for trained in (QUERY, config.LastLayers(count=0), config.LastLayers(count=1)):
            model = adapted(BASE, trained, double=False)
            before = {n: p.detach().clone() for n, p in model.named_parameters()}
            built = assemble_optimiser(optimiser, model.named_parameters())
            for _ in range(2):
                loss = answer(model).square().mean()
                built.zero_grad()
                loss.backward()
                zero = torch.zeros(())
                built.step(gate(built.gradients(), loss, clip_norm=None, blocked=zero), 1.0)
            moved_names = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
            assert moved_names == trainable(model)
            names_in_memory = {name.split("::")[0] for name in built.state_tensors()}
            assert names_in_memory <= moved_names


def test_matrices_of_adapters_are_hidden_ones_and_decay() -> None:
    from pellucid.optim import group

    model = adapted(BASE)
    groups = group(model.named_parameters())
    assert set(groups.hidden.parameters) == trainable(model)
    assert groups.hidden.decays
    assert not groups.embeddings.parameters
    assert not groups.vectors.parameters


def optimisers() -> Iterator[config.Optimiser]:
    adamw = config.AdamW(learning_rate=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    yield adamw
    yield config.Muon(
        learning_rate=1e-2, momentum=0.9, weight_decay=0.1, newton_schulz_steps=5, rest=adamw
    )
    yield config.SGD(learning_rate=1e-2, momentum=0.9, l2=0.0)
