"""Any model, any optimiser, any loop: what is seen, and that nothing is changed by looking."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.diagnosis import diagnose, history_of_watch, reduce_model
from pellucid.errors import ConfigError
from pellucid.model import MultiHeadAttention, assemble
from pellucid.presets import find
from pellucid.vitals import Probe, Sign, Watch, format_row, reading_mode, rows, watch
from support.foreign import VOCAB, Model, adam, bits, ids_of, loss_of, made


def loop(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int = 30,
    *,
    parts: int = 1,
    say: Callable[[Tensor], None] = lambda loss: None,
    first: int = 0,
    dtype: torch.dtype | None = None,
) -> None:
    """Somebody's own loop."""
    for step in range(first, first + steps):
        for part in ids_of(step).chunk(parts):
            with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
                loss = loss_of(model, part)
            (loss / parts).backward()
            say(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def probe(model: Model) -> Probe:
    ids = ids_of(0)
    return Probe(lambda: model(ids[:, :-1]), ids[:, 1:])


def by_id(w: Watch) -> dict[str, Sign]:
    return {sign.id: sign for sign in w.signs}


def optimisers() -> list[tuple[str, Callable[[nn.Module], torch.optim.Optimizer]]]:
    return [
        ("adamw", adam),
        ("fused", lambda m: torch.optim.AdamW(m.parameters(), lr=3e-3, fused=True)),
        ("sgd", lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)),
        ("adafactor", lambda m: torch.optim.Adafactor(m.parameters(), lr=1e-2)),
    ]


@pytest.mark.parametrize(("name", "make"), optimisers())
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_watching_changes_no_bit_of_weights_optimiser_or_randomness(
    name: str,
    make: Callable[[nn.Module], torch.optim.Optimizer],
    parts: int,
    dtype: torch.dtype | None,
) -> None:
    ends: list[tuple[list[Tensor], Any, Tensor]] = []
    for watched in (False, True):
        model = made()
        optimizer = make(model)
        torch.manual_seed(1)
        if watched:
            with watch(model, optimizer, max_overhead=None, probe=probe(model)) as w:
                loop(model, optimizer, parts=parts, say=w.step, dtype=dtype)
            assert w.updates == 30
            assert {"attention.max_logit", "update.kl_forward", "loss.rise"} <= set(by_id(w))
        else:
            loop(model, optimizer, parts=parts, dtype=dtype)
        ends.append((bits(model), optimizer.state_dict(), torch.get_rng_state()))
    (plain, state, random), (seen, its_state, its_random) = ends
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))
    assert torch.equal(random, its_random)
    for key, values in state["state"].items():
        for what, value in values.items():
            assert torch.equal(torch.as_tensor(value), its_state["state"][key][what].clone())


def test_no_hook_and_no_mode_is_left_behind() -> None:
    model = made()
    model.layers[1].eval()
    modes = [module.training for module in model.modules()]
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None):
        loop(model, optimizer, 3)
    assert [module.training for module in model.modules()] == modes
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_a_look_restores_randomness_modes_and_buffers() -> None:
    model = made()
    before = torch.get_rng_state()
    with reading_mode(model):
        assert not model.training
        assert not torch.is_grad_enabled()
        torch.rand(5)
        model.calls += 7
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert float(model.calls) == 0


@pytest.mark.parametrize(
    ("passes", "words"), [(True, "are not known to be of tokens"), (False, "no loss was passed")]
)
def test_a_loss_that_was_passed_is_not_called_missing(*, passes: bool, words: str) -> None:
    model = nn.Sequential(nn.Embedding(VOCAB, 8), nn.Flatten(), nn.Linear(32, 2))
    optimizer = adam(model)
    with watch(model, optimizer) as w:
        for step in range(8):
            loss = nn.functional.cross_entropy(model(ids_of(step)[:, :4]), ids_of(step)[:, 4] % 2)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if passes:
                w.step(loss)
    assert words in w.missing["loss.value"]
    assert "no norms" in w.missing["norm.variance_over_eps"]


def test_a_batch_that_was_seen_is_not_called_unseen() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer) as w:
        loss_of(model, ids_of(0)).backward()
        assert "no reading inside" in w.missing["probe"]


def test_a_first_block_that_is_not_trained_is_no_vanished_gradient() -> None:
    model = made()
    model.layers[0].requires_grad_(False)
    optimiser = adam(model)
    with watch(model, optimiser, max_overhead=None) as w:
        loop(model, optimiser, 3)
    assert 0.1 < by_id(w)["gradient.depth_ratio"].value < 10


def test_without_a_second_line_the_first_batch_is_the_probe() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None) as w:
        loop(model, optimizer)
    found = by_id(w)
    assert {"attention.entropy", "stream.rms", "update.kl_forward", "gradient.norm"} <= set(found)
    # what the model is to predict, and the loss, nobody has said
    assert "loss.value" not in found
    assert set(w.missing) == {"predictions.certain", "loss.value"}


@pytest.mark.parametrize("wrap", ["compiled", "module", "compiled after"])
def test_wrappers_are_looked_through(wrap: str) -> None:
    if wrap.startswith("compiled"):
        torch.compiler.reset()  # what another test compiled whole, without hooks, is used again
    model = made()
    reference = copy.deepcopy(model)
    called: nn.Module = model
    if wrap == "compiled":
        called = torch.compile(model, backend="eager")  # type: ignore[assignment]
    if wrap == "module":
        called = nn.DataParallel(model)
    optimizer, plain = adam(model), adam(reference)
    with watch(called, optimizer, max_overhead=None) as w:
        if wrap == "compiled after":
            called = torch.compile(model, backend="eager")  # type: ignore[assignment]
        torch.manual_seed(1)
        loop(called, optimizer, 12)
    torch.manual_seed(1)
    loop(reference, plain, 12)
    assert all(torch.equal(a, b) for a, b in zip(bits(model), bits(reference), strict=True))
    assert by_id(w)["attention.max_logit"].place.startswith("layers.")
    assert "stream.rms" in by_id(w)


def test_accumulated_parts_are_one_update_and_their_losses_one_loss() -> None:
    model = made()
    optimizer = adam(model)
    losses: list[float] = []
    with watch(model, optimizer, max_overhead=None, probe=probe(model)) as w:

        def say(loss: Tensor) -> None:
            losses.append(float(loss.detach()))
            w.step(loss)

        loop(model, optimizer, 20, parts=2, say=say)
    assert w.updates == 20
    mean = sum(losses[-40:]) / 40
    assert by_id(w)["loss.value"].value == pytest.approx(mean - math.log(VOCAB), abs=1e-6)


def test_numbers_of_an_update_are_those_of_the_formulas() -> None:
    model = made()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    old = {name: p.detach().clone() for name, p in model.named_parameters()}
    seen: dict[str, float] = {}
    with watch(model, optimizer, max_overhead=None, probe=probe(model)) as w:
        w.listeners.append(lambda step, signs: seen.update({s.id: s.value for s in signs}))
        loss_of(model, ids_of(0)).backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        model.eval()
        before = torch.log_softmax(model(ids_of(0)[:, :-1]).flatten(0, 1), -1)
        model.train()
        optimizer.step()
    model.eval()
    after = torch.log_softmax(model(ids_of(0)[:, :-1]).flatten(0, 1), -1)
    # the first step of Adam moves every weight by the learning rate, whatever the gradient
    assert seen["update.effective_step"] == pytest.approx(1.0, abs=0.02)
    assert seen["gradient.missing"] == 0
    inside = [n for n, p in model.named_parameters() if p.ndim == 2 and n.startswith("layers")]
    moved = dict(model.named_parameters())
    ratios = sorted(
        float((moved[name].detach() - old[name]).norm() / old[name].norm()) for name in inside
    )
    assert seen["update.ratio"] == pytest.approx(
        (ratios[len(ratios) // 2 - 1] + ratios[len(ratios) // 2]) / 2, rel=1e-4
    )
    kl = (before.exp() * (before - after)).sum(-1).mean().detach()
    assert seen["update.kl_forward"] == pytest.approx(float(kl), rel=1e-3, abs=1e-7)
    history = w.state_dict()["judge"]["history"]["gradient.norm"]
    assert history == [pytest.approx(float(norm), rel=1e-5)]


def test_a_reference_is_the_same_at_first_and_then_left() -> None:
    model = made()
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None, reference=reference) as w:
        loop(model, optimizer, 30)
    found = by_id(w)
    assert found["reference.kl_start"].value == 0
    assert found["reference.kl"].value > 1e-3
    assert found["reference.still"].word == "calm"


def test_a_reference_that_shares_its_weights_is_seen() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None, reference=model) as w:
        loop(model, optimizer, 130)
    assert by_id(w)["reference.still"].word == "sick"


def test_windows_come_back_and_go_on_as_if_nothing_had_been() -> None:
    ends: list[dict[str, Sign]] = []
    for stops in ((40,), (20, 20)):
        model = made()
        optimizer = adam(model)
        state: dict[str, Any] | None = None
        done = 0
        for steps in stops:
            w = watch(model, optimizer, max_overhead=None, probe=probe(model))
            if state is not None:
                w.load_state_dict(json.loads(json.dumps(state)))
            with w:
                torch.manual_seed(done)
                loop(model, optimizer, steps, say=w.step, first=done)
            state = w.state_dict()
            done += steps
        assert w.updates == 40
        ends.append(by_id(w))
    whole, resumed = ends
    for sign in ("loss.rise", "loss.value"):
        assert resumed[sign].step == whole[sign].step
    assert len(state["judge"]["losses"]) == 20 if state else False


def test_every_kind_of_log_is_written_to(tmp_path: Path) -> None:
    class Writer:
        def __init__(self) -> None:
            self.scalars: list[tuple[str, float, int]] = []

        def add_scalar(self, key: str, value: float, step: int) -> None:
            self.scalars.append((key, value, step))

    class Run:
        def __init__(self) -> None:
            self.logged: list[dict[str, float]] = []

        def log(self, values: dict[str, float]) -> None:
            self.logged.append(values)

    called: list[tuple[dict[str, float], int]] = []
    writer, run, file = Writer(), Run(), tmp_path / "signs.jsonl"
    for log in (writer, run, file, lambda values, step: called.append((values, step))):
        model = made()
        optimizer = adam(model)
        with watch(model, optimizer, max_overhead=None, probe=probe(model), log=log) as w:
            loop(model, optimizer, 12, say=w.step)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines] == [step for _, step in called] == [1, 5, 10]
    values, _ = called[-1]
    assert len(values) < 50
    assert (
        set(values) | {"step"} == set(lines[-1]) == set(run.logged[-1]) - {"vitals/step"} | {"step"}
    )
    assert {key for key, _, _ in writer.scalars} == set(values)
    assert all(key.startswith("vitals/") and key.count("/") == 3 for key in values)


def test_what_cannot_be_watched_is_refused_in_words(tmp_path: Path) -> None:
    model = made()
    with pytest.raises(ConfigError, match="unfreeze at least one"):
        watch(made().requires_grad_(False))
    with pytest.raises(ConfigError, match=r"max_overhead is 2\.0"):
        watch(model, max_overhead=2.0)
    with pytest.raises(ConfigError, match=r"no torch\.optim\.Optimizer"):
        watch(model, [nn.Linear(1, 1)])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="cannot be logged to 3"):
        watch(model, log=3)
    bad = tmp_path / "mine.toml"
    bad.write_text("[attention.max_logits]\nsick_above = 5.0\n")
    with pytest.raises(ConfigError, match=r"no sign 'attention\.max_logits'"):
        watch(model, thresholds=bad)
    bad.write_text("[attention.max_logit]\nsick_over = 5.0\n")
    with pytest.raises(ConfigError, match="unknown key 'sick_over'"):
        watch(model, thresholds=bad)
    bad.write_text('[attention.max_logit]\nsick_above = "much"\n')
    with pytest.raises(ConfigError, match="must be a number"):
        watch(model, thresholds=bad)


def test_a_threshold_of_ones_own_is_laid_over(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[attention.max_logit]\nwatch_above = 0.0\nreadings = 1\n")
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None, thresholds=mine) as w:
        loop(model, optimizer, 3)
    sign = by_id(w)["attention.max_logit"]
    assert sign.word == "watch"
    assert "watch above 0" in sign.rule


def test_without_an_optimiser_steps_are_said_by_hand() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, max_overhead=None, probe=probe(model)) as w:
        for step in range(25):
            loss = loss_of(model, ids_of(step))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            w.step(loss)
    assert w.updates == 25
    assert {"loss.rise", "attention.entropy"} <= set(by_id(w))
    assert w.missing["gradient.norm"] == "no optimiser was passed: call watch(model, optimizer)"


def test_without_an_optimiser_no_step_is_called_0() -> None:
    model = made()
    with watch(model, max_overhead=None) as w:
        for step in range(25):
            model.zero_grad()  # so the gradients are there when the update is over
            loss = loss_of(model, ids_of(step))
            loss.backward()
            for parameter in model.parameters():
                parameter.data.add_(parameter.grad, alpha=-0.1)
            w.step(loss)
    assert not any(id.startswith("update.") for id in by_id(w))
    assert "update.ratio" in w.missing
    assert [
        finding for finding in diagnose(history_of_watch(w)) if finding.severity != "note"
    ] == []


def test_the_purse_bounds_what_looking_costs() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=0.02, probe=probe(model)) as w:
        loop(model, optimizer, 300)
    # the first readings are on credit; after them there is a pause until they are paid off
    assert w.cost.n_readings > 0
    assert w.cost.seconds < 0.03 * max(20, w.cost.training_seconds)
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None, probe=probe(model)) as free:
        loop(model, optimizer, 150)
    assert free.cost.n_readings == 17 + 8
    assert f"{free.cost.share:.1%} of training" in free.report()


def test_a_loss_that_is_nan_is_sick_at_once() -> None:
    model = made()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None, probe=probe(model)) as w:
        loop(model, optimizer, 5, say=w.step)
        w.step(math.nan)
        loop(model, optimizer, 1)
    assert by_id(w)["loss.value"].word == "sick"


def test_rows_show_the_gravest_sign_and_always_the_five_equations() -> None:
    def sign(id: str, equation: Any, word: Any) -> Sign:
        return Sign(
            id=id, equation=equation, step=1, value=1.0, word=word, rule="r", source="s", place="w"
        )

    found = rows(
        [
            sign("attention.max_logit", 1, "calm"),
            sign("attention.entropy", 1, "watch"),
            sign("loss.value", 2, "sick"),
            sign("logits.log_z", 2, "sick"),
        ]
    )
    assert [row.name for row in found] == [
        "softmax",
        "cross-entropy",
        "KL",
        "gradients",
        "variance",
    ]
    assert [row.word for row in found] == ["watch", "sick", None, None, None]
    assert found[0].sign is not None
    assert found[0].sign.id == "attention.entropy"
    assert found[1].sign is not None
    assert found[1].sign.id == "loss.value"
    assert format_row(found[0]).startswith("1 softmax        watch  attention.entropy 1  in w")
    assert format_row(found[2]).endswith("not measured")


def test_attention_whose_forward_was_replaced_is_missing_and_breaks_nothing() -> None:
    model = assemble(reduce_model(find("llama2-7b").model), seed=0)
    for layer in model.modules():
        if isinstance(layer, MultiHeadAttention):
            layer.forward = lambda x, *rest, _out=layer.output, **more: _out(x)  # pyright: ignore
    optimizer = adam(model)
    ids = torch.arange(40).view(2, 20) % VOCAB
    with watch(model, optimizer, probe=Probe(lambda: model(ids[:, :-1]), ids[:, 1:])) as w:
        loss_of(model, ids).backward()
        optimizer.step()
    assert "attention.max_logit" in w.missing
    assert "stream.rms" in by_id(w)


@pytest.mark.parametrize("before_step", [True, False])
def test_without_with_the_first_step_begins_the_watch(before_step: bool) -> None:
    model = made()
    optimizer = adam(model)
    w = watch(model, optimizer, max_overhead=None)
    for step in range(40):
        loss = loss_of(model, ids_of(step))
        optimizer.zero_grad()
        loss.backward()
        if before_step:
            w.step(loss)
        optimizer.step()
        if not before_step:
            w.step(loss)
    assert w.updates == (40 if before_step else 39)
    assert not [cause for cause in diagnose(history_of_watch(w)) if cause.severity != "note"]
    w.close()
    assert not model._forward_hooks
    w.step(loss)
    assert w.updates == (40 if before_step else 39)


@pytest.mark.parametrize("evaluates_first", [True, False])
def test_a_model_that_never_rests_or_always_does_is_seen_alike(evaluates_first: bool) -> None:
    """A loop may evaluate before it trains, or never call `train()`: models come in that mode."""
    model = made().eval()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None) as w:
        if evaluates_first:
            loss_of(model, ids_of(9))  # with gradients, and no backward pass
            model.train()
        loop(model, optimizer, 5)
    assert {"call.inputs", "targets.single"} <= by_id(w).keys()
    first = w._first_batch
    assert first is not None
    assert first.first_ids is not None
    assert torch.equal(first.first_ids, ids_of(0)[:, :-1])
    assert history_of_watch(w).facts.rests is not evaluates_first


def test_what_was_written_before_the_first_call_in_training_mode_is_remembered() -> None:
    model = made().eval()
    prompts = ids_of(0)[:, :4]
    with watch(model, adam(model)) as w:
        with torch.no_grad():
            model(prompts)
        model.train()
        loss_of(model, ids_of(0))
        assert w._first_batch is not None
        assert w._first_batch.answers._is_own


class InHalf(nn.Module):
    """Computes its own loss in half precision, and returns copies in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(VOCAB, 16), nn.Linear(16, VOCAB)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.head(self.table(input_ids))
            loss = nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            )
        return {"loss": loss, "logits": logits.float()}


@pytest.mark.parametrize("own_loss", [True, False])
def test_targets_are_read_where_outputs_are_copies_in_another_precision(own_loss: bool) -> None:
    """Accelerate returns such copies; a loss of the model's own never reaches them."""
    torch.manual_seed(0)
    model = InHalf()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(3):
            ids = ids_of(step)
            output = model(input_ids=ids, labels=ids)
            targets = ids[:, 1:].flatten()
            loss = nn.functional.cross_entropy(output["logits"][:, :-1].flatten(0, 1), targets)
            (output["loss"] if own_loss else loss).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert by_id(w)["targets.single"].value == 1.0
    assert by_id(w)["targets.own"].value > 0


class LastToken(nn.Module):
    """A score of each row, read at its last token, which it finds by the ids of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(VOCAB, 16), nn.Linear(16, 1)
        self.config: Any = SimpleNamespace(model_type="scores", pad_token_id=0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.table(input_ids) * attention_mask[..., None]
        places = torch.arange(input_ids.shape[1])
        last = (places * (input_ids != 0)).argmax(1)
        return self.head(states[torch.arange(len(states)), last])


def test_a_score_in_half_precision_does_not_depend_on_padding_that_its_ids_show() -> None:
    torch.manual_seed(0)
    model = LastToken().bfloat16()
    optimizer = adam(model)
    with watch(model, optimizer, max_overhead=None) as w:
        for _ in range(2):
            ids = torch.randint(1, VOCAB, (4, 12))
            mask = (torch.arange(12) < torch.tensor([[12], [7], [9], [5]])).long()
            scores = model(input_ids=ids * mask, attention_mask=mask)
            (scores[0] - scores[1]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert by_id(w)["call.padding"].value == 0
