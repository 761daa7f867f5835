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
from torch.nn.functional import cosine_similarity

from pellucid.errors import ConfigError
from pellucid.vitals.anatomy import Anatomy, local
from pellucid.vitals.step_signs import (
    NONE,
    OF_STEPS,
    Step,
    is_adaptive,
    number_in,
    rms,
    sample,
)
from pellucid.vitals.tape import Tape

Optimisers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]

#: How many tokens' vectors are looked at, about.
_VECTORS = 512
_NO_GROUP: tuple[None, dict[str, Any]] = (None, {})


@dataclass(slots=True)
class _Before:
    """Samples of the weights that a step begins with, and of the gradients that it uses."""

    weights: dict[str, Tensor]
    #: of those matrices that have one, once gradients are measured
    gradients: dict[str, Tensor]


class Updates:
    """One optimiser's steps, or several that step together."""

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[torch.optim.Optimizer]) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        self._before: _Before | None = None
        #: the gradients of the look before, and whose they are
        self._last: tuple[list[str], Tensor] | None = None
        self._places: tuple[list[str], Tensor, Tensor] | None = None
        #: names of the modules that the model goes through; empty while not known
        self.called: frozenset[str] = frozenset()
        # asked before training begins, for it waits for the device
        self._from_zero = {
            name for name in anatomy.matrices if not bool(local(anatomy.parameters[name]).any())
        }
        self._depth = {name: anatomy.block_of(name) for name in anatomy.parameters}

    @property
    def adaptive(self) -> bool:
        """Whether any matrix is moved by a step that divides by the gradient's own size."""
        groups = self._groups()
        matrices = (self._anatomy.parameters[name] for name in self._anatomy.matrices)
        return any(is_adaptive(groups.get(id(matrix), _NO_GROUP)[1]) for matrix in matrices)

    @torch.no_grad()
    def begin(self) -> None:
        """Keep what weights are like before a step."""
        named = {name: self._anatomy.parameters[name] for name in self._anatomy.matrices}
        some = {name: p for name, p in named.items() if local(p).numel()}
        self._before = _Before({name: sample(p).clone() for name, p in some.items()}, {})

    @torch.no_grad()
    def gradients(self, tape: Tape) -> None:
        """Measure the gradients as the optimiser finds them: after `begin`.

        A closure makes them within the step: they are measured after it, as it leaves them.
        """
        tape.put("gradient.missing", self._missing)
        given = [
            (name, parameter, local(parameter.grad))
            for name, parameter in self._anatomy.parameters.items()
            if parameter.grad is not None and not parameter.grad.is_sparse
        ]
        # a process may have no part of what is small
        given = [each for each in given if each[2].numel()]
        if not given:
            return
        tape.guard("gradient.norm", self._norms, given, tape)
        before = self._before
        if before is None:
            return
        raw = {name: sample(grad) for name, _, grad in given if name in before.weights}
        wide = {name: gradient.float() for name, gradient in raw.items()}
        before.gradients = {name: each / self._divisor(each) for name, each in wide.items()}
        self._sizes(before, tape)
        tape.guard("gradient.zeros", self._numbers, list(raw), list(raw.values()), tape)

    def _missing(self) -> Tensor:
        """The share of what is trained that has no gradient, though the model goes through it."""
        every = self._anatomy.parameters
        lacking = [name for name, parameter in every.items() if parameter.grad is None]
        share = sum(self._takes_part(name) for name in lacking) / max(1, len(every))
        return torch.tensor(share, device="cpu")

    def _norms(self, given: list[tuple[str, nn.Parameter, Tensor]], tape: Tape) -> None:
        # torch.nn.utils.get_total_norm, its norms of each tensor kept
        each = cast("Any", torch)._foreach_norm([gradient for *_, gradient in given])
        norms = torch.stack([norm.to(each[0].device, torch.float32) for norm in each])
        norms = norms / self._divisor(norms)
        tape.put("gradient.norm", lambda: norms.square().sum().sqrt())
        self._profile([name for name, *_ in given], norms, tape)

    @torch.no_grad()
    def after(self, tape: Tape) -> None:
        """Measure what the step has done to the weights, and the gains of norms as they are now."""
        tape.guard("norm.gain", self._gains, tape)
        tape.guard("embeddings.*", self._embeddings, tape)
        kept, self._before = self._before, None
        if kept is None or not kept.gradients:
            return
        groups = self._groups()
        ratios: list[Tensor] = []
        by_sign: dict[str, dict[str, Tensor]] = {}
        for name, gradient in kept.gradients.items():
            parameter, old = self._anatomy.parameters[name], kept.weights[name]
            moved = (sample(parameter) - old).float()
            ratio = rms(moved) / rms(old.float()).clamp(min=1e-30)
            # what began at zero (adapters, outputs) has no size of its own that it could move by
            ratios.append(torch.full_like(ratio, NONE) if name in self._from_zero else ratio)
            step = Step(parameter, old, gradient, moved, *groups.get(id(parameter), _NO_GROUP))
            for sign, measure in OF_STEPS.items():
                value = tape.guard(sign, measure, step)
                if value is not None:
                    by_sign.setdefault(sign, {})[name] = value
        tape.put("update.ratio", lambda: torch.stack(ratios), tuple(kept.gradients))
        for sign, values in by_sign.items():
            tape.put(sign, lambda values=values: torch.stack([*values.values()]), tuple(values))

    def _groups(self) -> dict[int, tuple[torch.optim.Optimizer, dict[str, Any]]]:
        """Each parameter's optimiser and group, as they are now: both can be changed."""
        return {
            id(parameter): (optimiser, group)
            for optimiser in self._optimisers
            for group in optimiser.param_groups
            for parameter in cast("list[nn.Parameter]", group["params"])
        }

    def _numbers(self, names: list[str], gradients: list[Tensor], tape: Tape) -> None:
        """What the numbers of the gradients are like, all samples at once."""
        if not gradients:
            return
        together = torch.cat([gradient.float() for gradient in gradients])
        last, self._last = self._last, (names, together)
        tape.put("gradient.zeros", lambda: (together == 0).double().mean())
        if any(gradient.dtype == torch.float16 for gradient in gradients):
            most = torch.finfo(torch.float16).max
            tape.put("gradient.near_max", lambda: together.abs().amax() / most)
        if last is not None and last[0] == names:
            tape.put("gradient.cosine", lambda: cosine_similarity(together, last[1], dim=0))

    def _takes_part(self, name: str) -> bool:
        """Whether the model goes through a parameter's module, or through the one around that.

        A pooler is no part of a training on hidden tokens. Before the first look all take part.
        """
        module = name.rpartition(".")[0]
        around = module.rpartition(".")[0]
        return not self.called or module in self.called or (bool(around) and around in self.called)

    def _profile(self, names: list[str], norms: Tensor, tape: Tape) -> None:
        blocks = tuple(self._anatomy.blocks)
        # a block that is not trained has no gradient to lose
        trained = {depth for depth in self._depth.values() if depth is not None}
        if len(trained) < 2:
            return
        which, depth = self._inside(names, norms.device)
        squares = norms.new_zeros(len(blocks)).index_add_(0, depth, norms[which].square())
        profile = squares.sqrt()
        tape.put("gradient.by_depth", profile, blocks)
        first, last = profile[min(trained)], profile[max(trained)]
        tape.put("gradient.depth_ratio", lambda: first / last.clamp(min=1e-30))

    def _inside(self, names: list[str], device: torch.device) -> tuple[Tensor, Tensor]:
        """Which of these parameters lie in a block, and in which.

        Made once: a list that becomes indices on a device is waited for.
        """
        if self._places is None or self._places[0] != names:
            inside = [
                (i, d) for i, name in enumerate(names) if (d := self._depth[name]) is not None
            ]
            which = torch.tensor([i for i, _ in inside], dtype=torch.long, device=device)
            depth = torch.tensor([d for _, d in inside], dtype=torch.long, device=device)
            self._places = (names, which, depth)
        return self._places[1:]

    def _sizes(self, now: _Before, tape: Tape) -> None:
        if not now.gradients:
            return
        both = [
            (now.weights[name], self._anatomy.parameters[name].shape[-1] ** 0.5)
            for name in now.gradients
        ]
        tape.put(
            "weights.size",
            lambda: torch.stack([rms(weight.float()) * root for weight, root in both]),
            tuple(now.gradients),
        )

    def _gains(self, tape: Tape) -> None:
        gains = {
            name: rms(local(norm.gain.detach()).float() + norm.offset)
            for name, norm in self._anatomy.norms.items()
            if norm.gain is not None and local(norm.gain).numel()
        }
        if gains:
            tape.put("norm.gain", lambda: torch.stack(list(gains.values())), tuple(gains))

    def _embeddings(self, tape: Tape) -> None:
        """RMS of some tokens' vectors, and how much it differs from token to token."""
        largest = max(
            (local(module.weight) for module in self._anatomy.embeddings.values()),
            key=len,
            default=None,
        )
        if largest is None or largest.ndim != 2 or not largest.numel():
            return
        vectors = largest.detach()[:: -(-len(largest) // _VECTORS)].float()
        each = vectors.square().mean(-1).sqrt()
        tape.put("embeddings.rms", lambda: each.mean())
        tape.put("embeddings.spread", lambda: each.std(correction=0) / each.mean().clamp(min=1e-30))

    def _divisor(self, like: Tensor) -> Tensor | float:
        """What a fused optimiser divides gradients by before it uses them."""
        for optimiser in self._optimisers:
            divisor = cast("Any", getattr(optimiser, "grad_scale", None))
            if isinstance(divisor, Tensor):
                return divisor.to(like)
        return 1.0


def rate_of(optimisers: Sequence[torch.optim.Optimizer]) -> float | None:
    """The learning rate of the first group; None where it has none."""
    groups = [group for optimiser in optimisers for group in optimiser.param_groups]
    return number_in(groups[0], "lr") if groups else None


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
