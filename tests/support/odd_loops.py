"""A user's loops that are odd and sound."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from support.loops import UPDATES, Loop


class Clipped(Loop):
    """Every gradient is clipped a little, as in fine-tuning."""

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.3)
        self.optimizer.step()
        return loss


class Scheduled(Loop):
    """A schedule as people use them."""

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self.scheduler = schedule(self.optimizer)

    def update(self, step: int) -> Tensor:
        loss = super().update(step)
        self.scheduler.step()
        return loss


class Averaged(Loop):
    """Averages of the weights are put in for an evaluation, and the weights back after it."""

    def update(self, step: int) -> Tensor:
        loss = super().update(step)
        weights = copy.deepcopy(self.model.state_dict())
        average = getattr(self, "average", weights)
        self.average = {name: 0.9 * average[name] + 0.1 * weights[name] for name in weights}
        if step % 10 == 9:
            self.model.load_state_dict(self.average)
            with torch.no_grad():
                self.model.eval()
                self.loss(1000)
                self.model.train()
            self.model.load_state_dict(weights)
        return loss


class Pruned(Loop):
    """Nine of ten weights are 0 and stay 0: a mask takes back what the step gave them."""

    def update(self, step: int) -> Tensor:
        weights = [weight for weight in self.model.parameters() if weight.ndim == 2]
        if step == 0:
            draws = torch.Generator().manual_seed(0)
            self.masks = [torch.rand(w.shape, generator=draws) < 0.1 for w in weights]
        with torch.no_grad():
            for mask, weight in zip(self.masks, weights, strict=True):
                weight *= mask
        return super().update(step)


class Lookahead(Loop):
    """Every fifth update the weights go half of the way back."""

    @torch.no_grad()
    def pull(self, step: int) -> None:
        weights = list(self.model.parameters())
        if step % 5 == 0:
            for slow, fast in zip(self.slow, weights, strict=True):
                fast.copy_(slow.lerp_(fast, 0.5))

    def update(self, step: int) -> Tensor:
        if step == 0:
            self.slow = [weight.detach().clone() for weight in self.model.parameters()]
        loss = super().update(step)
        self.pull(step + 1)
        return loss


class Centralised(Loop):
    """Gradients without their mean, by a hook; weights are kept within a norm after the step."""

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.optimizer.zero_grad()
        loss.backward()
        for weight in self.model.parameters():
            if weight.grad is not None and weight.ndim > 1:
                weight.grad -= weight.grad.mean(0, keepdim=True)
        self.optimizer.step()
        with torch.no_grad():
            self.model.head.weight.clamp_(-1, 1)
        return loss


class InTurn(Loop):
    """Two optimisers, each of half of the weights, step in turn, each with gradients of its own."""

    def __init__(self) -> None:
        super().__init__()
        weights = list(self.model.parameters())
        self.optimizer = [torch.optim.AdamW(weights[i::2], lr=3e-3) for i in range(2)]

    def update(self, step: int) -> Tensor:
        loss = self.loss(step)
        self.model.zero_grad()
        loss.backward()
        self.optimizer[step % 2].step()
        return loss


class Adapted(Loop):
    """Frozen weights, and a few that learn."""

    def __init__(self) -> None:
        super().__init__()
        self.model.requires_grad_(False)
        for layer in self.model.layers:
            layer.norm.requires_grad_(True)
            layer.down.requires_grad_(True)
        learning = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(learning, lr=3e-3)


class Declared(Loop):
    """Weights that no optimiser holds, on purpose."""

    def __init__(self) -> None:
        super().__init__()
        learning = [w for name, w in self.model.named_parameters() if "embed" not in name]
        self.optimizer = torch.optim.AdamW(learning, lr=3e-3)


class Tied(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.model.head.weight = self.model.embed.weight
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)


class EightBits(torch.optim.Optimizer):
    """A user's own optimiser: its memory is rounded, and its state has no step."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights, {"lr": 3e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for weight in self.param_groups[0]["params"]:
            memory = self.state[weight].setdefault("memory", torch.zeros_like(weight))
            memory.mul_(0.9).add_(weight.grad)
            size = memory.abs().amax().clamp(min=1e-12) / 127
            self.state[weight]["memory"] = (memory / size).round() * size
            weight.sub_(self.param_groups[0]["lr"] * memory.sign())


class Scaled(Loop):
    """A scaler of float16 that begins too high: its first steps are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=20)

    def update(self, step: int) -> Tensor:
        with torch.autocast("cpu", torch.float16):
            loss = self.loss(step)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss


def restarts(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 15)


def warm_then_stable_then_decayed(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / 5, 1.0, (UPDATES - n) / 20)
    )


def eight_bits() -> Loop:
    loop = Loop()
    loop.optimizer = EightBits(loop.model.parameters())
    return loop
