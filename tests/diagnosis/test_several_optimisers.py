"""Loops with several optimisers, and parts that are frozen or adapted on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.diagnosis.causes import long_steps
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.history.weight_shares import bounded_share, has_adapters, untrained_share
from pellucid.vitals import Mark, watch
from support.courses import GUESSING, but, healthy
from support.foreign import ids_of, loss_of, made
from support.loops import Loop


class TwoOptimisers(Loop):
    """The first half of the weights has an optimiser of its own."""

    #: whether the watch is given both, and whether they step in turn
    gives_both = True
    in_turn = False

    def __init__(self) -> None:
        super().__init__()
        weights = list(self.model.parameters())
        half = len(weights) // 2
        parts = (weights[:half], weights[half:])
        self.both = [torch.optim.AdamW(part, lr=3e-3) for part in parts]
        self.optimizer = self.both if self.gives_both else self.both[0]

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        for optimiser in self.both:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in [self.both[step % 2]] if self.in_turn else self.both:
            optimiser.step()
        for optimiser in self.both:
            for group in optimiser.param_groups:
                group["lr"] = 3e-3 * (1 - step / 100)
        return loss


class OneOfTwo(TwoOptimisers):
    gives_both = False


class InTurn(TwoOptimisers):
    in_turn = True


class OneInTurn(InTurn):
    gives_both = False


@pytest.mark.parametrize("kind", [TwoOptimisers, OneOfTwo, InTurn, OneInTurn])
def test_weights_that_another_optimiser_moves_are_no_fault(kind: type[Loop]) -> None:
    loop = kind()
    assert loop.codes() == []
    assert loop.watch is not None
    notes = [f.code for f in history_of_watch(loop.watch).findings]
    assert ("OPT001" in notes) == (kind in (OneOfTwo, OneInTurn))


class HalfForgotten(Loop):
    """Half of the weights are in no optimiser at all."""

    def __init__(self) -> None:
        super().__init__()
        weights = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(weights[: len(weights) // 2], lr=3e-3)


def test_weights_that_nothing_moves_stay_a_fault() -> None:
    assert HalfForgotten().codes()[:1] == ["OPT001"]


@pytest.mark.parametrize(("classes", "severity"), [(3, "note"), (96, "warn")])
def test_a_head_of_classes_may_read_a_frozen_body(classes: int, severity: str) -> None:
    facts = replace(healthy().facts, untrained=1.0, frozen=0.9, frozen_body=True)
    facts = replace(facts, vocab_size=classes)
    found = diagnose(replace(healthy(), facts=facts))
    assert ("GRD003", severity) in [(f.code, f.severity) for f in found]


def test_adapters_that_learn_little_are_no_frozen_model() -> None:
    stuck = tuple((step, GUESSING - 0.1) for step in range(1, 121))
    facts = replace(healthy().facts, frozen=0.9)
    course = replace(healthy(), losses=stuck)
    for adapted, is_named in ((False, True), (True, False)):
        found = diagnose(replace(course, facts=replace(facts, adapted=adapted)))
        assert ("GRD003" in {f.code for f in found}) == is_named


def test_weights_that_end_at_a_bound_are_cut_off() -> None:
    def share(bound: float | None, *, levels: bool = False) -> float | None:
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(2)))
        with torch.no_grad():
            for matrix in (layer.weight for layer in model):
                matrix.copy_(matrix.sign() if levels else matrix.clamp(-(bound or 1), bound or 1))
        return bounded_share(model)

    assert share(0.05) == 1
    assert share(None) == share(0.175) == share(None, levels=True) == 0
    assert bounded_share(nn.LayerNorm(8)) is None
    assert bounded_share(nn.Linear(16, 1)) == 0  # one of a few numbers is the largest
    stuck = replace(healthy(), losses=tuple((step, GUESSING - 0.1) for step in range(1, 121)))
    for course, cut_off, severity in (
        (stuck, 1.0, ["fault"]),
        (stuck, 0.25, []),
        (healthy(), 1.0, ["note"]),
        (healthy(), None, []),
    ):
        found = diagnose(replace(course, facts=replace(course.facts, bounded=cut_off)))
        assert [f.severity for f in found if f.code == "UPD012"] == severity


def test_small_parts_of_all_blocks_are_adapters() -> None:
    def block(*, trains: bool) -> nn.ModuleDict:
        matrices = nn.ModuleDict({"whole": nn.Linear(8, 8), "low": nn.Linear(8, 1)})
        matrices["whole"].requires_grad_(False)
        return matrices if trains else matrices.requires_grad_(False)

    assert has_adapters(nn.ModuleList([block(trains=True), block(trains=True)]))
    assert not has_adapters(nn.ModuleList([block(trains=True), block(trains=False)]))
    assert not has_adapters(nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)]))


def test_an_encoder_that_is_frozen_as_a_whole_is_left_out_on_purpose() -> None:
    def stack() -> nn.ModuleList:
        layers = [nn.Sequential(nn.Linear(4, 4, bias=False), nn.LayerNorm(4)) for _ in range(2)]
        return nn.ModuleList(layers)

    both = nn.ModuleDict({"encoder": nn.ModuleDict({"layers": stack()}), "decoder": stack()})
    both["encoder"].requires_grad_(False)
    assert untrained_share(both) == 0
    both["encoder"]["layers"][1].requires_grad_(True)
    assert untrained_share(both) == 0.25


@pytest.mark.parametrize(("optimiser", "severity"), [("Rprop", "note"), ("AdamW", "fault")])
def test_rprop_needs_the_same_rows_again(optimiser: str, severity: str) -> None:
    mark = Mark(n_seen=50, n_seeable=50, first=2, values=[1.0] * 50)
    facts = replace(healthy().facts, optimiser=optimiser)
    found = diagnose(replace(healthy(), facts=facts, marks={"same_rows": mark}))
    assert ("DAT001", severity) in [(f.code, f.severity) for f in found]


def test_a_model_that_follows_copies_in_full_precision_is_no_other_model() -> None:
    model = made().bfloat16()
    weights = list(model.parameters())
    copies = [weight.detach().float().requires_grad_() for weight in weights]
    optimiser = torch.optim.AdamW(copies, lr=1e-2)
    with watch(model, optimiser, max_overhead=None) as w:
        for step in range(40):
            loss = loss_of(model, ids_of(step))
            loss.backward()
            for weight, copied in zip(weights, copies, strict=True):
                copied.grad = None if weight.grad is None else weight.grad.float()
                weight.grad = None
            optimiser.step()
            with torch.no_grad():
                for weight, copied in zip(weights, copies, strict=True):
                    weight.copy_(copied)
            w.step(loss)
    findings = diagnose(history_of_watch(w))
    assert [finding.code for finding in findings if finding.severity != "note"] == []


def test_a_head_that_learns_before_its_body_moves_far_by_design() -> None:
    shares = {"frozen": 0.0, "frozen_at_first": 0.9}
    assert long_steps.has_adapters(HistoryView(but(facts=shares)()))
    shares = {"frozen": 0.0, "frozen_at_first": 0.0}
    assert not long_steps.has_adapters(HistoryView(but(facts=shares)()))
