"""Gradients that a closure makes within the step: those of this update are seen, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import Watch, watch
from support.foreign import ids_of, loss_of, made
from support.lightning_trainer import quiet_trainer
from support.unharmed import Loop, Say, unharmed

MAKE: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "AdamW": lambda m: torch.optim.AdamW(m.parameters(), lr=3e-3),
    "LBFGS": lambda m: torch.optim.LBFGS(m.parameters(), lr=0.1, max_iter=3),
}


def norm_of(model: nn.Module) -> float:
    """The norm of all gradients as they are now, in float64."""
    squares = [p.grad.double().square().sum() for p in model.parameters() if p.grad is not None]
    return float(torch.stack(squares).sum().sqrt())


def norms_seen(w: Watch) -> dict[int, float]:
    return {point.step: point.value for point in w.judge.record.norms.points}


class Closing(Loop):
    """A loop whose closure clears the gradients and makes new ones, as torch's manual has it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.optimizers = [MAKE[kind](self.model)]
        self.norms: list[float] = []

    def update(self, step: int, say: Say) -> None:
        (optimizer,) = self.optimizers

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(self.model, ids_of(step))
            (loss * 10**step).backward()  # a step late would be ten times too small
            return loss

        say(optimizer.step(closure) if step % 2 else optimizer.step(closure=closure))
        self.norms.append(norm_of(self.model))


@pytest.mark.parametrize("kind", MAKE)
def test_gradients_of_a_closure_are_those_of_its_own_update(kind: str) -> None:
    loops: list[Closing] = []

    def make() -> Closing:
        loops.append(Closing(kind))
        return loops[-1]

    w = unharmed(make)
    assert w.guard.off == {}
    seen = norms_seen(w)
    assert {1, 5} <= set(seen)
    for step, norm in seen.items():
        assert norm == pytest.approx(loops[-1].norms[step - 1], rel=1e-4)
    signs = {sign.id: sign for sign in w.signs}
    assert signs["gradient.left"].value == 0  # each closure clears what was there
    assert signs["gradient.missing"].value == 0
    assert "update.ratio" in signs


def signs_of(
    model: nn.Module,
    updates: int,
    loss_at: Callable[[nn.Module, int], Tensor],
    names: tuple[str, ...],
    *,
    within: bool,
) -> dict[str, float]:
    """The signs of a training whose gradients are made within the step or before it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(updates):

            def closure(step: int = step) -> Tensor:
                optimizer.zero_grad()
                loss = loss_at(model, step)
                loss.backward()
                return loss

            if not within:
                closure()
            optimizer.step(closure if within else None)
    return {sign.id: sign.value for sign in w.signs if sign.id.startswith(names)}


def test_a_closure_and_a_plain_step_have_the_same_signs() -> None:
    """The same training, its gradients made within the step and before it."""
    names = ("gradient.", "update.ratio", "update.effective", "norm.gain", "weights.")
    plain, closing = (
        signs_of(made(), 12, lambda model, step: loss_of(model, ids_of(step)), names, within=within)
        for within in (False, True)
    )
    assert len(plain) > 8
    assert closing == plain


def pair_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """-log sigmoid of what the first half of the rows is likelier by than the second half."""
    log_p = model(ids)[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).sum((1, 2))
    chosen, rejected = log_p.chunk(2)
    return -torch.nn.functional.logsigmoid(chosen - rejected).mean()


def test_pairs_of_a_closure_are_read_as_those_of_a_plain_loop() -> None:
    def loss_at(model: nn.Module, step: int) -> Tensor:
        return pair_loss(model, torch.cat([ids_of(step), ids_of(step + 50)]))

    plain, closing = (
        signs_of(made().eval(), 3, loss_at, ("answers.",), within=within)
        for within in (False, True)
    )
    assert plain["answers.pairs"] > 0
    assert closing == plain


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_lightnings_closures_are_seen_in_their_own_update(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from pellucid.vitals.lightning import VitalsCallback

    norms: list[float] = []

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = made()
            self.criterion = nn.CrossEntropyLoss()
            self.reference = made().requires_grad_(False)

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            return loss_of(self.inner, batch) * 10.0**index

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            norms.append(norm_of(self.inner))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    callback = VitalsCallback(max_overhead=None, show=False)
    trainer = quiet_trainer(tmp_path, [callback], max_steps=6)
    rows = torch.cat([ids_of(step) for step in range(6)])
    trainer.fit(Module(), torch.utils.data.DataLoader(list(rows), batch_size=4))
    seen = norms_seen(callback.watch)
    assert {1, 5} <= set(seen)
    for step, norm in seen.items():
        assert norm == pytest.approx(norms[step - 1], rel=1e-4)
    # the model is called, and never the module that keeps it
    assert "stream.rms" in {sign.id for sign in callback.watch.signs}
