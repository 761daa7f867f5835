"""Thirty layers: which gradients reach the first of them, by residual rule and initialisation?

    python -m benchmarks.depth

Twelve multilayer perceptrons of 30 layers and 64 features learn the classes that a fixed random
network gives to random inputs: three residual rules times four deviations of the weights. At the
start and after 300 steps of Adam: the norm of the loss's gradient at each state, and what the
product of the layers' Jacobians says that it should be.

Nothing comes in. Goes out: benchmarks/results/depth.json, which docs/derivations/depth.md reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from pellucid.maths import he_std, xavier_std
from pellucid.model import LayerNorm, no_residual, post_norm, pre_norm

RESULTS = Path(__file__).parent / "results" / "depth.json"
LAYERS, WIDTH, CLASSES, EXAMPLES, BATCH, STEPS, LEARNING_RATE = 30, 64, 10, 2048, 128, 300, 1e-3
#: Examples over which gradients and Jacobians are averaged.
N_MEASURED = 64

RULES: dict[str, Callable[..., Tensor]] = {
    "no residual": no_residual,
    "post-norm": post_norm,
    "pre-norm": pre_norm,
}
STDS = {
    "too small": 0.02,
    "Xavier": xavier_std(WIDTH, WIDTH),
    "He": he_std(WIDTH),
    "too large": 2 * he_std(WIDTH),
}


class Deep(nn.Module):
    """Layers of ReLU and a matrix, each under the residual rule, and a readout."""

    def __init__(self, rule: str, std: float) -> None:
        super().__init__()
        self.rule = RULES[rule]
        plain = rule == "no residual"
        self.layers = nn.ModuleList(
            nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(LAYERS)
        )
        self.norms = nn.ModuleList(
            nn.Identity() if plain else LayerNorm(WIDTH, eps=1e-5, bias=True) for _ in range(LAYERS)
        )
        self.final_norm = LayerNorm(WIDTH, eps=1e-5, bias=True) if rule == "pre-norm" else None
        self.readout = nn.Linear(WIDTH, CLASSES)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                wide = WIDTH**-0.5 if name.startswith("readout") else std
                nn.init.normal_(weight, 0.0, wide)
            elif "norm" not in name:
                nn.init.zeros_(weight)

    def apply_layer(self, number: int, x: Tensor) -> Tensor:
        """One layer under its rule."""
        return self.rule(x, self.norms[number], self.layers[number])

    def states(self, x: Tensor) -> list[Tensor]:
        """The input and what each layer makes of it."""
        states = [x]
        for number in range(LAYERS):
            states.append(self.apply_layer(number, states[-1]))
        return states

    def loss(self, state: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of the last state's readout."""
        state = state if self.final_norm is None else self.final_norm(state)
        return nn.functional.cross_entropy(self.readout(state), targets)


def data() -> tuple[Tensor, Tensor]:
    """Random inputs, and the classes that a random network of two layers gives to them."""
    torch.manual_seed(0)
    x = torch.randn(EXAMPLES, WIDTH)
    scores = torch.tanh(x @ torch.randn(WIDTH, WIDTH) / WIDTH**0.5) @ torch.randn(WIDTH, CLASSES)
    return x, scores.argmax(-1)


def gradients(model: Deep, x: Tensor, targets: Tensor) -> dict[str, list[float]]:
    """The gradient's norm at each state, measured and by the product of Jacobians.

    measured_l = |dL/dh_l|,  estimate_l = |dL/dh_L| prod_{k > l} |J_k| / sqrt(width)

    with the Frobenius norm, which is what a gradient of random direction meets.
    """
    x, targets = x[:N_MEASURED], targets[:N_MEASURED]
    states = model.states(x.clone().requires_grad_())
    gradients_of_states = torch.autograd.grad(model.loss(states[-1], targets), states)
    measured = [
        norm.item() for norm in torch.stack([g.double().norm() for g in gradients_of_states])
    ]
    estimate = [measured[-1]]
    for number in reversed(range(LAYERS)):
        layer = vmap(jacrev(lambda x, number=number: model.apply_layer(number, x)))
        jacobians = layer(states[number].detach())
        factor = (jacobians.square().sum((1, 2)).mean() / WIDTH).sqrt().item()
        estimate.append(estimate[-1] * factor)
    return {"measured": measured, "estimate": estimate[::-1]}


def cell(rule: str, std: float, *, steps: int = STEPS) -> dict[str, Any]:
    """One network: its gradients and loss at the start, and after training."""
    x, targets = data()
    torch.manual_seed(1)
    model = Deep(rule, std)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def look() -> dict[str, Any]:
        with torch.no_grad():
            loss = model.loss(model.states(x)[-1], targets).item()
        return {"loss": loss, **gradients(model, x, targets)}

    measurements = {"start": look()}
    if not steps:
        return measurements
    for _ in range(steps):
        rows = torch.randint(EXAMPLES, (BATCH,))
        optimiser.zero_grad()
        model.loss(model.states(x[rows])[-1], targets[rows]).backward()
        optimiser.step()
    return measurements | {"trained": look()}


def rounded(value: Any) -> Any:
    """Four digits: more would say more than another machine can repeat."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def format_network(rule: str, name: str, measurements: dict[str, Any]) -> str:
    """One line for one network."""
    words = [f"{rule}, {name}:"]
    for stage, look in measurements.items():
        words.append(f"{stage}: loss {look['loss']:.4g}, |dL/dh_0| {look['measured'][0]:.1e}")
        words.append(f"(estimate {look['estimate'][0]:.1e})")
    return " ".join(words)


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "layers": LAYERS,
        "width": WIDTH,
        "steps": STEPS,
        "learning_rate": LEARNING_RATE,
        "stds": STDS,
        "cells": {},
    }
    for rule in RULES:
        results["cells"][rule] = {}
        for name, std in STDS.items():
            measurements = cell(rule, std)
            results["cells"][rule][name] = measurements
            print(format_network(rule, name, measurements), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rounded(results), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
