"""A user's loops with a fault, as a watch at the default budget meets them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.diagnosis import declare, diagnose, history_of_watch
from pellucid.vitals import Watch, watch
from support.foreign import ids_of, loss_of, made

UPDATES = 60


class Loop:
    """A user's loop at the default budget; subclasses override the differences."""

    def __init__(self, seed: int = 0) -> None:
        self.model: nn.Module = made(seed)
        self.optimizer: Any = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.watch: Watch | None = None

    def loss(self, step: int) -> Tensor:
        return loss_of(self.model, ids_of(step))

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def codes(self, updates: int = UPDATES, **declared: Any) -> list[str]:
        """Train, and return the codes of the findings, the first cause first."""
        with watch(self.model, self.optimizer, max_overhead=None) as self.watch:
            for step in range(updates):
                self.watch.step(self.update(step))
        assert self.watch.guard.off == {}
        expected = declare(**declared)
        history = history_of_watch(self.watch, declared=expected)
        findings = diagnose(history, declared=expected)
        return [finding.code for finding in findings if finding.severity != "note"]


class Uncleared(Loop):
    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        loss.backward()
        self.optimizer.step()
        return loss


class Stale(Loop):
    """Each step takes the gradients of the backward pass before."""

    old: list[Tensor] | None = None

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        old, self.old = self.old, [gradient.clone() for gradient in gradients]
        for gradient, stale in zip(gradients, old or [], strict=False):
            gradient.copy_(stale)
        self.optimizer.step()
        return loss


class Faint(Loop):
    """A factor of next to nothing is on the gradient of one matrix."""

    def __init__(self) -> None:
        super().__init__()
        matrices = [p for p in self.model.parameters() if p.ndim == 2]
        hooked: Any = matrices[len(matrices) // 2]
        hooked.register_hook(lambda gradient: gradient * 1e-12)


class ClearedTooSoon(Loop):
    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        loss.backward()
        self.optimizer.zero_grad()
        self.optimizer.step()
        return loss


class StepBeforeBackward(Loop):
    def update(self, step: int) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(step)
        self.optimizer.step()
        loss.backward()
        return loss


class PutBack(Loop):
    """An old copy is loaded from time to time, and training continues from it."""

    def update(self, step: int) -> Tensor:
        if step == 10:
            self.kept = copy.deepcopy(self.model.state_dict())
        if step > 10 and step % 15 == 0:
            self.model.load_state_dict(self.kept)
        return super().update(step)


class WrittenOver(Loop):
    """A slow average of the weights takes their place after every update."""

    def update(self, step: int) -> Tensor:
        weights = list(self.model.parameters())
        if step == 0:
            self.average = [weight.detach().clone() for weight in weights]
        loss = super().update(step)
        with torch.no_grad():
            for slow, weight in zip(self.average, weights, strict=True):
                weight.copy_(slow.lerp_(weight, 0.01))
        return loss


class SteppedTwice(Loop):
    def update(self, step: int) -> Tensor:
        loss = super().update(step)
        self.optimizer.step()
        return loss


class Undivided(Loop):
    """The losses of four parts are added, and not averaged: Adam's steps are as long."""

    divisor = 1

    def update(self, step: int) -> Tensor:
        losses = [self.part(4 * step + part) for part in range(4)]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack(losses).mean()

    def part(self, step: int) -> Tensor:
        loss = self.loss(step)
        (loss / self.divisor).backward()
        return loss.detach()


class UndividedDescent(Undivided):
    """Without Adam the steps are four times as long."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)


class Accumulated(Undivided):
    divisor = 4


class ScheduleByPart(Accumulated):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)
        self.optimizer.step()  # or torch warns of the order

    def part(self, step: int) -> Tensor:
        loss = super().part(step)
        self.scheduler.step()
        return loss


class StuckSchedule(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.001, total_iters=50)


class CoupledDecay(Loop):
    def __init__(self) -> None:
        super().__init__()
        weights = self.model.parameters()
        self.optimizer = torch.optim.Adam(weights, lr=3e-3, weight_decay=1.0)


class Rested(Loop):
    """After the first evaluation the model stays in evaluation mode."""

    def update(self, step: int) -> Tensor:
        if step == 10:
            self.model.eval()
        return super().update(step)


class Forgetful(Loop):
    def update(self, step: int) -> Tensor:
        if step % 15 == 14:
            self.optimizer.state.clear()
        return super().update(step)


class MadeAnew(Loop):
    """The optimiser is made anew in each update, and keeps no memory."""

    def update(self, step: int) -> Tensor:
        loss = super().update(step)
        self.optimizer.state.clear()
        return loss


class Pulled(Loop):
    """The weights are averaged with the initial weights after each update."""

    share = 0.3

    def update(self, step: int) -> Tensor:
        weights = list(self.model.parameters())
        if step == 0:
            self.start = [weight.detach().clone() for weight in weights]
        loss = super().update(step)
        with torch.no_grad():
            for weight, start in zip(weights, self.start, strict=True):
                weight.lerp_(start, self.share)
        return loss


class Cut(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3)
        self.optimizer.step()
        return loss


class OldHead(Loop):
    """The head is replaced after the optimiser was built."""

    def __init__(self) -> None:
        super().__init__()
        self.model.head = copy.deepcopy(self.model.head)


class CopyHeld(Loop):
    """The optimiser was built for a copy of the model: all of its steps are without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.model = copy.deepcopy(self.model)


class StepsEnd(Loop):
    def update(self, step: int) -> Tensor:
        if step < 20:
            return super().update(step)
        loss = self.loss(step)
        loss.backward()
        return loss


class SameBatch(Loop):
    def loss(self, step: int) -> Tensor:
        return super().loss(0)


class Discarding(Loop):
    """It steps after every fifth batch, and clears the gradients after each."""

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad()
        loss.backward()
        if step % 5 == 4:
            self.optimizer.step()
        return loss


class Climbing(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3, maximize=True)
