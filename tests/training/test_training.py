"""The loop: accumulation, observers, events, values that are not finite."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.batches import IGNORED, TokenBatch
from pellucid.checkpoints import load_model_tensors
from pellucid.errors import NonFiniteError
from pellucid.model import Experts, Transformer, assemble_balancing, expert_layers
from pellucid.objectives import NextToken
from pellucid.runs import RunFolder, read_events
from pellucid.runs.plan import StepSeconds
from pellucid.training import (
    CheckpointSaved,
    Evaluated,
    Event,
    Finished,
    Logged,
    Preparing,
    Sampled,
    Started,
    StepFinished,
    StoppedNonFinite,
    accumulate,
    from_record,
    to_record,
)
from pellucid.training.non_finite import find_culprit
from pellucid.training.randomness import generator_states, restore_generators, seed_step
from support.events import LOGGED
from support.models import VARIANTS, build, random_ids, with_stack
from support.tiny import train_tiny


@settings(max_examples=10)
@given(st.lists(st.integers(0, 9), min_size=4, max_size=4), st.sampled_from([2, 4]))
def test_accumulated_gradients_equal_the_large_batch(ignored: list[int], parts: int) -> None:
    model = build(VARIANTS["rotary"])
    ids = random_ids(4, 11)
    targets = ids[:, 1:].clone()
    for row, count in enumerate(ignored):
        targets[row, :count] = IGNORED
    batch = TokenBatch(
        ids=ids[:, :-1], targets=targets, n_supervised=int((targets != IGNORED).sum())
    )
    results = []
    for accumulation in (1, parts):
        model.zero_grad()
        sums = accumulate(
            model,
            NextToken(),
            batch,
            accumulation=accumulation,
            device=torch.device("cpu"),
            precision="float32",
        )
        results.append((sums["total"], [p.grad for p in model.parameters()]))
    torch.testing.assert_close(results[0], results[1])


class Accumulated(NamedTuple):
    """What one batch with experts leaves behind."""

    sums: dict[str, torch.Tensor]
    gradients: list[torch.Tensor | None]
    biases: dict[str, torch.Tensor]


def accumulated(model: Transformer, batch: TokenBatch, parts: int) -> Accumulated:
    """Forward and backward over a batch in parts, and one balancing step."""
    layers = expert_layers(model)
    for layer in layers.values():
        if layer.choice_bias is not None:
            layer.choice_bias.copy_(torch.linspace(-0.1, 0.1, len(layer.choice_bias)))
    model.zero_grad()
    balancing = assemble_balancing(model)
    sums = accumulate(
        model,
        NextToken(),
        batch,
        accumulation=parts,
        device=torch.device("cpu"),
        precision="float32",
        balancing=balancing,
    )
    if balancing is not None:
        balancing.step(torch.tensor(0.0))
    return Accumulated(
        sums,
        [p.grad for p in model.parameters()],
        {n: x.choice_bias.clone() for n, x in layers.items() if x.choice_bias is not None},
    )


def with_experts(**changes: object) -> Transformer:
    """A model whose layers are experts with a bias of the choice, without a loss of their own."""
    experts = VARIANTS["grouped experts and a shared one"].decoder.feed_forward
    return build(with_stack(feed_forward=replace(experts, **{"router_z_loss": 0.0, **changes})))


def text_batch(rows: int) -> TokenBatch:
    """Rows whose first targets are ignored, more of them in each next row."""
    ids = random_ids(rows, 12)
    targets = ids[:, 1:].clone()
    for row in range(rows):
        targets[row, : 2 * row] = IGNORED
    n_supervised = int((targets != IGNORED).sum())
    return TokenBatch(ids=ids[:, :-1], targets=targets, n_supervised=n_supervised)


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_of_a_batch_balance_experts_as_the_whole_batch_does(parts: int) -> None:
    model, batch = with_experts(), text_batch(4)
    one_part, cut = (accumulated(model, batch, n) for n in (1, parts))
    torch.testing.assert_close(cut.sums, one_part.sums)
    torch.testing.assert_close(cut.gradients, one_part.gradients)
    assert one_part.biases.keys() == expert_layers(model).keys()
    for name, bias in one_part.biases.items():
        assert torch.equal(cut.biases[name], bias)
    # a step for each part would move some biases further, or nowhere
    bias_changes = torch.cat([b - torch.linspace(-0.1, 0.1, 6) for b in one_part.biases.values()])
    assert bias_changes.abs().max() == pytest.approx(0.01)


@pytest.mark.parametrize("parts", [2, 4])
def test_each_part_of_a_batch_has_its_own_load_loss_and_their_mean_counts(parts: int) -> None:
    model, batch = with_experts(load_loss=0.5, router_z_loss=0.25), text_batch(4)
    one_part, cut = (accumulated(model, batch, n) for n in (1, parts))
    by_hand = [load_losses(model, ids) for ids in batch.ids.chunk(parts)]
    assert float(cut.sums["load_loss"]) == pytest.approx(sum(by_hand) / parts)
    assert float(one_part.sums["load_loss"]) == pytest.approx(load_losses(model, batch.ids))
    # not the same number: a part has other shares than the batch
    assert abs(float(cut.sums["load_loss"] - one_part.sums["load_loss"])) > 1e-4
    for name in ("loss_nats", "router_z_loss"):  # means over tokens do not differ
        torch.testing.assert_close(cut.sums[name], one_part.sums[name])
    expected = cut.sums["loss_nats"] + 0.5 * sum(by_hand) / parts
    torch.testing.assert_close(cut.sums["total"], expected + 0.25 * cut.sums["router_z_loss"])
    assert all(torch.equal(cut.biases[name], bias) for name, bias in one_part.biases.items())


def test_parts_that_are_alike_have_the_load_loss_of_the_whole_batch() -> None:
    model, half = with_experts(load_loss=0.5), text_batch(2)
    batch = TokenBatch(
        ids=half.ids.repeat(2, 1),
        targets=half.targets.repeat(2, 1),
        n_supervised=2 * half.n_supervised,
    )
    one_part, cut = (accumulated(model, batch, n) for n in (1, 2))
    torch.testing.assert_close(cut.sums, one_part.sums)
    torch.testing.assert_close(cut.gradients, one_part.gradients)


def load_losses(model: Transformer, ids: torch.Tensor) -> float:
    """The mean load loss of the layers, N sum_i f_i P_i, before the balancing step."""
    layer_losses: list[float] = []

    def after(layer: Experts, inputs: tuple[torch.Tensor, ...], output: object) -> None:
        bias = torch.linspace(-0.1, 0.1, len(layer.experts))
        logits = inputs[0].flatten(0, -2) @ layer.router.weight.T
        routing = layer.rule(logits, bias.to(logits.dtype))
        probability = (routing.scores / routing.scores.sum(-1, keepdim=True)).mean(0)
        share = routing.experts.flatten().bincount(minlength=len(bias)) / len(logits)
        layer_losses.append(float(len(bias) * (probability * share).sum()))

    layers = expert_layers(model).values()
    for layer in layers:
        assert layer.choice_bias is not None
        layer.choice_bias.copy_(torch.linspace(-0.1, 0.1, len(layer.choice_bias)))
    hooks = [layer.register_forward_hook(after) for layer in layers]
    with torch.no_grad():
        model.states(ids)
    for hook in hooks:
        hook.remove()
    return sum(layer_losses) / len(layer_losses)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_model_tensors(RunFolder(folder).shelf.latest())


def same_bits(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_same_seed_same_weights(trained: Path, tmp_path: Path) -> None:
    train_tiny(tmp_path / "again")
    assert same_bits(weights_of(trained), weights_of(tmp_path / "again"))
    train_tiny(tmp_path / "other", settings=["seed=7"])
    assert not same_bits(weights_of(trained), weights_of(tmp_path / "other"))


def test_observers_change_nothing_even_if_they_draw_numbers(trained: Path, tmp_path: Path) -> None:
    def nosy(event: Event) -> None:
        torch.rand(3)
        torch.nn.functional.dropout(torch.ones(5))

    train_tiny(tmp_path / "watched", observers=[nosy])
    assert same_bits(weights_of(trained), weights_of(tmp_path / "watched"))


def test_how_often_a_run_reports_changes_nothing(trained: Path, tmp_path: Path) -> None:
    quiet = ("training.log_every=100", "training.evaluate_every=100")
    train_tiny(tmp_path / "quiet", settings=quiet)
    assert same_bits(weights_of(trained), weights_of(tmp_path / "quiet"))


def test_events_come_in_their_order_and_say_every_step(tmp_path: Path) -> None:
    run_events: list[Event] = []
    train_tiny(tmp_path / "run", observers=[run_events.append])
    preparing = [e for e in run_events if isinstance(e, Preparing)]
    assert run_events[: len(preparing)] == preparing
    run_events = run_events[len(preparing) :]
    assert isinstance(run_events[0], Started)
    assert isinstance(run_events[-1], Finished)
    assert [e.step for e in run_events if isinstance(e, StepFinished)] == list(range(1, 13))
    assert [e.step for e in run_events if isinstance(e, Evaluated)] == [0, 4, 8, 12]
    assert [e.step for e in run_events if isinstance(e, Sampled)] == [0, 4, 8, 12]
    assert [e.step for e in run_events if isinstance(e, CheckpointSaved)] == [4, 8, 12]
    logged = [e for e in run_events if isinstance(e, Logged)]
    assert sum(len(e.losses) for e in logged) == 12
    assert all(math.isfinite(value) for e in logged for value in (*e.losses, *e.grad_norms))
    # each step counts the tokens of its batch once
    assert logged[-1].tokens <= 12 * 4 * 16
    assert [e for e in run_events if not isinstance(e, StepFinished)] == read_events(
        RunFolder(tmp_path / "run").metrics
    )


def test_the_first_loss_is_near_guessing_and_the_last_is_lower(trained: Path) -> None:
    events = read_events(RunFolder(trained).metrics)
    started = next(e for e in events if isinstance(e, Started))
    held_out = [e.loss_nats for e in events if isinstance(e, Evaluated)]
    assert started.guessing_nats == pytest.approx(math.log(258))
    assert held_out[0] == pytest.approx(started.guessing_nats, rel=0.05)
    assert held_out[-1] < held_out[0] - 0.3


@given(st.floats(allow_nan=True, allow_infinity=True), st.text())
@settings(max_examples=30)
def test_events_survive_the_file(value: float, text: str) -> None:
    event = Sampled(step=1, sentence=text, next_tokens=((text, value),), continuation="")
    line = json.dumps(to_record(event), allow_nan=False)
    reread = from_record(json.loads(line))
    assert isinstance(reread, Sampled)
    assert reread.sentence == text
    ((token, share),) = reread.next_tokens
    assert token == text
    assert share == value or (math.isnan(share) and math.isnan(value))


def test_a_text_that_reads_nan_stays_a_text() -> None:
    event = Sampled(step=1, sentence="nan", next_tokens=(), continuation="inf")
    assert from_record(to_record(event)) == event


def test_records_of_an_earlier_version_are_read_as_they_would_be_written_now() -> None:
    old = to_record(LOGGED)
    del old["parts"], old["unit"]
    old["log_z"] = [1.0] * 9 + [{"float": "nan"}]
    read = from_record(json.loads(json.dumps(old)))
    assert isinstance(read, Logged)
    assert read.part("log_z")[:9] == (1.0,) * 9
    assert math.isnan(read.part("log_z")[9])
    assert read.unit == "tokens"
    fields = {"step": 3, "loss_nats": 2.5, "bits_per_byte": 1.5, "tokens": 70, "best": True}
    assert from_record({"event": "Evaluated", **fields}) == Evaluated(
        step=3,
        loss_nats=2.5,
        over=70,
        unit="tokens",
        measures=(("bits_per_byte", 1.5),),
        best=True,
    )


def test_a_step_draws_the_same_numbers_whatever_was_drawn_before() -> None:
    draws = []
    for noise in (0, 5):
        torch.rand(noise)
        seed_step(1337, 12)
        draws.append(torch.rand(4))
    seed_step(1337, 13)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], torch.rand(4))


def test_every_generator_is_saved_and_brought_back() -> None:
    import numpy as np

    tensors, states = generator_states()
    states = json.loads(json.dumps(states))
    expected = (torch.rand(2), random.random(), np.random.random())
    restore_generators(tensors, states)
    draws = (torch.rand(2), random.random(), np.random.random())
    assert torch.equal(draws[0], expected[0])
    assert draws[1:] == expected[1:]


SGD = 'optimiser={kind="SGD", learning_rate=1e38, momentum=0.0, l2=0.0}'


@pytest.mark.parametrize(
    "poison",
    [
        [SGD, "training.clip_norm=none"],  # the first update throws the weights out of range
        ["model.initialisation.embedding_std=1e38"],  # they start out of range
    ],
)
def test_a_value_that_is_not_finite_stops_the_run_and_is_named(
    tmp_path: Path, poison: list[str]
) -> None:
    run_events: list[Event] = []
    with pytest.raises(NonFiniteError, match="not finite"):
        train_tiny(tmp_path / "run", settings=poison, observers=[run_events.append])
    stopped = next(e for e in run_events if isinstance(e, StoppedNonFinite))
    assert stopped.what in ("weight", "output of module")
    assert stopped.where
    aside_folder = Path(stopped.aside)
    assert {file.name for file in aside_folder.iterdir()} == {
        "model.safetensors",
        "optimiser.safetensors",
        "batch.safetensors",
        "report.json",
    }
    folder = RunFolder(tmp_path / "run")
    assert folder.shelf.steps() == []  # nothing bad was kept as good
    logged = [e for e in read_events(folder.metrics) if isinstance(e, Logged)]
    assert all(math.isfinite(loss) for e in logged for loss in e.losses)
    assert 0.0 not in [loss for e in logged for loss in e.losses]


def test_a_bad_update_in_mid_run_leaves_weights_and_checkpoints_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a loss that explodes at one update only, as a bad batch would make it
    calls = {"n": 0}
    plain = NextToken.__call__

    def explode(self, model, batch):  # type: ignore[no-untyped-def]
        calls["n"] += 1
        loss = plain(self, model, batch)
        if calls["n"] == 2 * 6 + 1:  # after six updates, in two parts each
            loss.total.data.fill_(math.nan)
            return type(loss)(total=loss.total * math.nan, parts=loss.parts)
        return loss

    monkeypatch.setattr(NextToken, "__call__", explode)
    # no passes of it
    monkeypatch.setattr(
        import_module("pellucid.runs.train"), "measure_step", lambda *_: StepSeconds(1.0, 1.0)
    )
    run_events: list[Event] = []
    with pytest.raises(NonFiniteError):
        train_tiny(tmp_path / "bad", observers=[run_events.append])
    monkeypatch.undo()
    stopped = next(e for e in run_events if isinstance(e, StoppedNonFinite))
    assert stopped.step == 6
    folder = RunFolder(tmp_path / "bad")
    assert folder.shelf.steps() == [4]
    train_tiny(tmp_path / "good", steps=12, settings=["training.checkpoint_every=6"])
    from safetensors.torch import load_file

    set_aside = load_file(Path(stopped.aside) / "model.safetensors")
    good = load_model_tensors(tmp_path / "good" / "checkpoints" / "step-6")
    assert same_bits(set_aside, good)


@pytest.mark.parametrize("where", ["weight", "output", "gradient", "loss"])
def test_the_culprit_is_found_where_it_is(where: str) -> None:
    model = build(VARIANTS["rotary"], double=False)
    ids = random_ids(2, 8)
    name = "decoder.blocks.1.feed_forward.up"
    module = model.get_submodule(name)
    if where == "weight":
        module.weight.data[0, 0] = math.inf
    if where == "output":
        module.register_forward_hook(lambda m, i, o: o * math.nan)
    if where == "gradient":
        module.weight.register_hook(lambda grad: grad * math.nan)

    def repeat() -> torch.Tensor:
        loss = model(ids).logsumexp(-1).mean()
        loss = loss * math.nan if where == "loss" else loss
        loss.backward()
        return loss.detach()

    culprit = find_culprit(model, repeat)
    expected = {
        "weight": ("weight", f"{name}.weight"),
        "output": ("output of module", name),
        "gradient": ("gradient", f"{name}.weight"),
        "loss": ("loss", "objective"),
    }
    assert (culprit.kind, culprit.place) == expected[where]
    assert not any(module._forward_hooks for module in model.modules() if where != "output")
