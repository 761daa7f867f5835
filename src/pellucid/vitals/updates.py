"""Gradients and what an optimiser makes of them: norms by depth, and how far weights move.

Comes in: named parameters, an optimiser's groups and memory, before and after one of its steps.
Goes out: measurements on a tape. It does not know the model's calls, nor the loss.

Norms of gradients are over all their numbers. How weights move is measured on a sample of each
matrix, evenly spread and the same every time: no copy of the weights is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.vitals.anatomy import Anatomy
from pellucid.vitals.tape import Tape

Optimisers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]

#: How many numbers of a matrix are looked at, at most: its RMS is then known to half a percent.
_SAMPLE = 2**14


@dataclass(slots=True)
class _Before:
    """Samples of the weights and gradients that a step begins with."""

    names: list[str]
    weights: list[Tensor]
    gradients: list[Tensor]


class Updates:
    """One optimiser's steps, or several that step together."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        self._groups: dict[int, tuple[torch.optim.Optimizer, dict[str, Any]]] = {
            id(parameter): (optimiser, group)
            for optimiser in optimisers
            for group in optimiser.param_groups
            for parameter in cast("list[nn.Parameter]", group["params"])
        }
        self._before: _Before | None = None
        self._last: dict[str, Tensor] = {}
        self._places: tuple[list[str], Tensor, Tensor] | None = None
        self._depth = {name: anatomy.block_of(name) for name in anatomy.parameters}

    @property
    def adaptive(self) -> bool:
        """Whether any matrix is moved by a step that divides by the gradient's own size."""
        return any(self._is_adaptive(name) for name in self._anatomy.matrices)

    @torch.no_grad()
    def before(self, tape: Tape) -> None:
        """Measure the gradients as the optimiser finds them."""
        given = [
            (name, parameter, parameter.grad)
            for name, parameter in self._anatomy.parameters.items()
            if parameter.grad is not None and not parameter.grad.is_sparse
        ]
        n_all = len(self._anatomy.parameters)
        missing = torch.tensor((n_all - len(given)) / max(n_all, 1))
        tape.put("gradient.missing", missing)
        self._before = None
        if not given:
            return
        # torch.nn.utils.get_total_norm, its norms of each tensor kept
        norms = torch.stack(
            [n.float() for n in cast("Any", torch)._foreach_norm([g for *_, g in given])]
        )
        norms = norms / self._divisor(norms)
        tape.put("gradient.norm", norms.square().sum().sqrt())
        self._profile([name for name, *_ in given], norms, tape)
        named = {name: (parameter, gradient) for name, parameter, gradient in given}
        chosen = [name for name in self._anatomy.matrices if name in named]
        self._before = _Before(
            chosen,
            [sample(named[name][0]).clone() for name in chosen],
            [sample(named[name][1]).float() / self._divisor(norms) for name in chosen],
        )
        self._sizes(self._before, tape)
        self._alike(self._before, tape)

    @torch.no_grad()
    def after(self, tape: Tape) -> None:
        """Measure what the step has done to the weights, and the gains of norms as they are now."""
        self._gains(tape)
        kept, self._before = self._before, None
        if kept is None or not kept.names:
            return
        ratios: list[Tensor] = []
        steps: dict[str, Tensor] = {}
        surprises: dict[str, Tensor] = {}
        for name, old, gradient in zip(kept.names, kept.weights, kept.gradients, strict=True):
            parameter = self._anatomy.parameters[name]
            moved = (sample(parameter) - old).float()
            ratios.append(rms(moved) / rms(old.float()).clamp(min=1e-30))
            if self._is_adaptive(name):
                optimiser, group = self._groups[id(parameter)]
                shrunk = group["lr"] * _decoupled_decay(optimiser, group) * old.float()
                steps[name] = rms(moved + shrunk) / group["lr"]
                surprise = _rms_t(optimiser, group, parameter, gradient)
                if surprise is not None:
                    surprises[name] = surprise
        tape.put("update.ratio", torch.stack(ratios), tuple(kept.names))
        for sign, values in (("update.effective_step", steps), ("gradient.rms_t", surprises)):
            if values:
                tape.put(sign, torch.stack(list(values.values())), tuple(values))

    def _profile(self, names: list[str], norms: Tensor, tape: Tape) -> None:
        blocks = tuple(self._anatomy.blocks)
        if len(blocks) < 2:
            return
        which, depth = self._inside(names, norms.device)
        squares = norms.new_zeros(len(blocks)).index_add_(0, depth, norms[which].square())
        profile = squares.sqrt()
        tape.put("gradient.by_depth", profile, blocks)
        tape.put("gradient.depth_ratio", profile[0] / profile[-1].clamp(min=1e-30))

    def _inside(self, names: list[str], device: torch.device) -> tuple[Tensor, Tensor]:
        """Which of these parameters lie in a block, and in which.

        Made once: a list that becomes indices on a device is waited for.
        """
        if self._places is None or self._places[0] != names:
            inside = [
                (i, d) for i, name in enumerate(names) if (d := self._depth[name]) is not None
            ]
            which = torch.tensor([i for i, _ in inside], device=device)
            depth = torch.tensor([d for _, d in inside], device=device)
            self._places = (names, which, depth)
        return self._places[1:]

    def _sizes(self, now: _Before, tape: Tape) -> None:
        if not now.names:
            return
        rows = [self._anatomy.parameters[name].shape[-1] ** 0.5 for name in now.names]
        sizes = [rms(w.float()) * root for w, root in zip(now.weights, rows, strict=True)]
        tape.put("weights.size", torch.stack(sizes), tuple(now.names))
        tables = self._anatomy.embeddings
        if tables:
            of_tables = [rms(sample(table.weight).float()) for table in tables.values()]
            tape.put("embedding.size", torch.stack(of_tables), tuple(tables))

    def _alike(self, now: _Before, tape: Tape) -> None:
        """The cosine of these gradients and those of the last look."""
        last, self._last = self._last, dict(zip(now.names, now.gradients, strict=True))
        both = [(g, last[name]) for name, g in self._last.items() if name in last]
        if not both:
            return
        dots = torch.stack([torch.stack([a.dot(b), a.dot(a), b.dot(b)]) for a, b in both]).sum(0)
        tape.put("gradient.alike", dots[0] / (dots[1] * dots[2]).sqrt().clamp(min=1e-30))

    def _gains(self, tape: Tape) -> None:
        gains = {
            name: rms(norm.gain.detach().float() + norm.offset)
            for name, norm in self._anatomy.norms.items()
            if norm.gain is not None
        }
        if gains:
            tape.put("norm.gain", torch.stack(list(gains.values())), tuple(gains))

    def _is_adaptive(self, name: str) -> bool:
        entry = self._groups.get(id(self._anatomy.parameters[name]))
        return entry is not None and "betas" in entry[1] and "eps" in entry[1]

    def _divisor(self, like: Tensor) -> Tensor | float:
        """What a fused optimiser divides gradients by before it uses them."""
        for optimiser in self._optimisers:
            divisor = cast("Any", getattr(optimiser, "grad_scale", None))
            if isinstance(divisor, Tensor):
                return divisor.to(like)
        return 1.0


def optimisers_of(given: Optimisers | None) -> tuple[torch.optim.Optimizer, ...]:
    """The optimisers that step, inside whatever wraps them."""
    if given is None:
        return ()
    several = [given] if isinstance(given, torch.optim.Optimizer) else list(given)
    found: list[torch.optim.Optimizer] = []
    for one in several:
        inner: Any = one
        while isinstance(getattr(inner, "optimizer", None), torch.optim.Optimizer):
            inner = inner.optimizer
        if not isinstance(inner, torch.optim.Optimizer):
            raise ConfigError(
                f"{type(one).__name__} is no torch.optim.Optimizer: pass the one whose step() "
                "updates the weights, or several in a list"
            )
        found.append(inner)
    return tuple(found)


def sample(tensor: Tensor) -> Tensor:
    """At most `_SAMPLE` numbers of a tensor, evenly spread: a view where it can be one."""
    flat = tensor.detach().reshape(-1)
    # an odd stride, so that the columns of a matrix as wide as a power of two all have their turn
    stride = -(-flat.numel() // _SAMPLE) | 1
    return flat[::stride]


def rms(x: Tensor) -> Tensor:
    """sqrt(mean(x^2))."""
    return x.square().mean().sqrt()


def _decoupled_decay(optimiser: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    decoupled = "AdamW" in type(optimiser).__name__ or group.get("decoupled_weight_decay")
    return float(group.get("weight_decay", 0.0)) if decoupled else 0.0


def _rms_t(
    optimiser: torch.optim.Optimizer,
    group: dict[str, Any],
    parameter: nn.Parameter,
    gradient: Tensor,
) -> Tensor | None:
    """sqrt(mean(g^2 / max(v, eps^2))): how much larger gradients are than the optimiser expects.

    Source:
        Wortsman et al. 2023, "Stable and low-precision training for large-scale vision-language
        models", algorithm 2 (StableAdamW).
    """
    state = cast("dict[str, Any]", optimiser.state.get(parameter, {}))
    if "exp_avg_sq" not in state or "step" not in state:
        return None
    steps = state["step"]
    correction = 1 - group["betas"][1] ** steps
    v = sample(state["exp_avg_sq"]).float() / (
        correction.to(gradient) if isinstance(correction, Tensor) else correction
    )
    return (gradient.square() / v.clamp(min=float(group["eps"]) ** 2)).mean().sqrt()
