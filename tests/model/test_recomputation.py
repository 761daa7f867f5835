"""Recomputation changes no number, keeps less, and no observer sees a forward pass twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from pellucid import config
from pellucid.counting.activations import Pass, Recompute, activations
from pellucid.model import assemble
from pellucid.model.dropout import Dropout
from pellucid.presets import find
from pellucid.training.kernels import compile_blocks, compiler_problem, recompute_by
from pellucid.vitals.taps.hooks import Hooks
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, random_ids, with_stack

_STACK = BASE.decoder
assert _STACK is not None
_BATCH_NORM = replace(_STACK, norm=config.BatchNorm(eps=1e-5, momentum=0.1))
ALL: dict[str, config.Transformer] = {
    **VARIANTS,
    **{f"encoder {name}": model for name, model in ENCODERS.items()},
    **{f"pair {name}": model for name, model in PAIRS.items()},
    "batch norm": replace(BASE, encoder=_BATCH_NORM, decoder=None),
}
SAMPLE = ("busy head", "spectral norm", "batch norm", "experts", "pair t5")


def after_two_updates(model: Any, recompute: Recompute) -> list[Tensor]:
    """Gradients, buffers and the next random numbers after two forward and backward passes."""
    model = model.float().train()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.1
    recompute_by(model, recompute)
    torch.manual_seed(5)
    for seed in range(2):
        ids = random_ids(4, 9, seed=seed)
        pairs = model.encoder is not None and model.decoder is not None
        encoded = {"encoded": model.encode(random_ids(4, 6))} if pairs else {}
        model.hidden_states(ids, **encoded).pow(2).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*gradients, *model.buffers(), torch.rand(3)]


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.nightly) for n in ALL],
)
def test_gradients_buffers_and_random_numbers_are_equal_bit_for_bit(
    name: str, recompute: Recompute
) -> None:
    recomputed_numbers = after_two_updates(build(ALL[name]), recompute)
    kept_numbers = after_two_updates(build(ALL[name]), "none")
    assert len(recomputed_numbers) == len(kept_numbers) > 10
    assert all(torch.equal(a, b) for a, b in zip(recomputed_numbers, kept_numbers, strict=True))


@pytest.mark.nightly  # compiling three times takes a minute
def test_compiled_blocks_have_the_gradients_of_blocks_that_keep_everything() -> None:
    if problem := compiler_problem(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {problem}")
    gradients: dict[str, list[Tensor]] = {}
    choices: tuple[Recompute, ...] = ("none", "selective", "full")
    for recompute in choices:
        torch.compiler.reset()
        model: Any = build(BASE).float().train()
        recompute_by(model, recompute)
        compile_blocks(model)
        model.hidden_states(random_ids(4, 9)).pow(2).sum().backward()
        gradients[recompute] = [p.grad for p in model.parameters() if p.grad is not None]
    eager: Any = build(BASE).float().train()
    eager.hidden_states(random_ids(4, 9)).pow(2).sum().backward()
    expected = [p.grad for p in eager.parameters() if p.grad is not None]
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for gradient_list in gradients.values():
        assert len(gradient_list) == len(expected) > 10
        for gradient, kept_gradient, plain_gradient in zip(
            gradient_list, gradients["none"], expected, strict=True
        ):
            assert torch.equal(gradient, kept_gradient)
            assert float((gradient - plain_gradient).abs().max()) < 1e-5 * largest


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_forward_pass_keeps_what_is_counted(recompute: Recompute) -> None:
    model_config = replace(find("nano").model, vocab_size=64, context_length=128)
    model = assemble(model_config, seed=0).train()
    recompute_by(model, recompute)
    ids = torch.zeros(2, 128, dtype=torch.int64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        states = model.hidden_states(ids)
    kept_bytes = sum(event.self_cpu_memory_usage for event in measured.key_averages())
    counted_bytes, all_bytes = (
        activations(model_config, Pass(2, 128, 128), precision="float32", recompute=choice)[
            0
        ].n_bytes
        for choice in (recompute, "none")
    )
    assert kept_bytes == pytest.approx(counted_bytes, abs=0.02 * all_bytes)
    assert states.requires_grad


def test_a_hook_of_the_vital_signs_is_called_once_for_each_forward_pass() -> None:
    model: Any = build(with_stack()).float().train()
    recompute_by(model, "full")
    calls: list[str] = []

    def guard(part: str, call: Any, *args: Any, **kwargs: Any) -> None:
        call(*args, **kwargs)

    with Hooks(guard) as hooks:  # type: ignore[arg-type]
        norm: nn.Module = model.decoder.blocks[0].attention_norm
        hooks.before(norm, "norm", lambda *_: calls.append("before"))
        hooks.after(norm, "norm", lambda *_: calls.append("after"))
        model.hidden_states(random_ids(2, 5)).sum().backward()
    assert calls == ["before", "after"]
