"""Measures the rows of one rank: hooks that act only in the updates that all ranks measure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.training import Guard
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.witnesses import gradient_numbers, numbers_of
from pellucid.vitals.model_parts import Anatomy, local
from pellucid.vitals.ranks.measures import (
    checksums,
    ids_of,
    joined,
    norms,
    padded,
    paid_and_weight,
    tensors,
    whole_parameters,
)
from pellucid.vitals.ranks.row import NUMBERS, TEXTS, UNKNOWN, RankRow, is_due, weights_row
from pellucid.vitals.step_signs import number_in
from pellucid.vitals.taps.hooks import Hook, Hooks
from pellucid.vitals.taps.outputs import logits_of, outputs_in
from pellucid.vitals.taps.recorded_call import is_learning, is_plain

COLUMN = "ranks"
#: Most groups of weights whose norms are shown, and most places whose gradient is read.
_GROUPS, _PLACES = 64, 512


class RankTap:
    """The measurements of this rank.

    Args:
        anatomy: the model's parts.
        optimisers: those that step.
        guard: guards hooks on gradients.
    """

    def __init__(self, anatomy: Anatomy, optimisers: Sequence[Optimizer], guard: Guard) -> None:
        self._anatomy = anatomy
        self._optimisers = tuple(optimisers)
        self._guard = guard
        self._hooks: Hooks | None = None
        plain = whole_parameters(anatomy)
        size = -(-len(plain) // _GROUPS) or 1
        names = list(plain)
        #: the names of each group of weights that every rank holds as a whole
        self.groups = [names[i : i + size] for i in range(0, len(names), size)]
        self._plain = plain
        #: the parameter whose gradient is seen as it arrives
        self._witness: nn.Parameter | None = None
        #: whether the witness is a share, whose gradient the backward pass averages over ranks
        self.reads_shares = not plain and any(
            local(p) is not p for p in anatomy.parameters.values()
        )
        #: examples of all calls so far
        self.n_examples = 0
        self._is_due = True
        #: what the host knows of the rows on their way
        self._host_rows: list[tuple[int, int, bool, list[float]]] = []
        self._clear()

    def _clear(self) -> None:
        self._gradients: dict[str, Tensor] = {}
        self._arrived: Tensor | None = None
        self._used: Tensor | None = None
        self._texts: Tensor | None = None
        self._before: Tensor | None = None
        self._paid: list[Tensor] = []
        self._generator: int | None = None
        self._draws: bool | None = None

    def attach(self, model: nn.Module, hooks: Hooks) -> None:
        """Add hooks to the model.

        Args:
            model: as the loop calls it, or as a wrapper does.
            hooks: take the hooks.
        """
        self._hooks = hooks
        hooks.before(model, "ranks", self._on_call, with_kwargs=True)
        hooks.after(model, "ranks", self._on_output)

    # ---- the forward pass

    def _on_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_learning(module):
            return
        first = next(tensors((kwargs.get("input_ids"), *args, *kwargs.values())), None)
        self.n_examples += 0 if first is None else len(first)
        if not self._is_due:
            return
        if self._generator is None:
            self._generator = self._read_generator()
        if first is not None:
            self._texts = checksums(first.detach()[:TEXTS])

    def _on_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if not self._is_due or not is_learning(module):
            return
        if self._draws is None:  # between two passes the loop may draw numbers of its own
            self._draws = self._read_generator() != self._generator
        logits = outputs_in(output, logits_of(output))
        if logits is not None and logits.requires_grad and is_plain(logits):
            rows = logits.detach().view(-1, logits.shape[-1]) if logits.is_contiguous() else None
            if rows is None:
                return
            stride = max(1, len(rows) // _PLACES) | 1
            sampled = rows[::stride].clone()  # a loop may write to its logits
            take = partial(self._measure_loss, sampled, stride)
            cast("Any", logits).register_hook(Hook(self._guard, "ranks", take))

    def _measure_loss(self, logits: Tensor, stride: int, gradient: Tensor) -> None:
        rows = gradient.detach().reshape(-1, gradient.shape[-1])
        self._paid.append(paid_and_weight(rows, logits, stride))
        if self.reads_shares:
            engine: Any = cast("Any", torch.autograd.Variable)._execution_engine
            engine.queue_callback(self._read_averaged)

    def _read_generator(self) -> int:
        device = next(iter(self._anatomy.parameters.values())).device
        # the state of a GPU's generator lies on the host
        state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
        return zlib.crc32(state.numpy().tobytes())

    # ---- the update

    @torch.no_grad()
    def begin(self) -> None:
        """Take the weights before an update's first step."""
        if self._witness is None:
            self._choose()
        if self._is_due and self._plain:
            weights = norms({name: p.detach() for name, p in self._plain.items()})
            self._before = joined([*weights.values()])[None]

    def _choose(self) -> None:
        """Choose the parameter whose gradients are seen as they arrive: a vector is cheap."""
        if self.reads_shares:
            parameters = self._anatomy.parameters.values()
            self._witness = next((p for p in parameters if local(p).numel()), None)
            return
        learning = [p for p in self._plain.values() if p.grad is not None and p.is_contiguous()]
        witness = next((p for p in learning if p.ndim == 1), next(iter(learning), None))
        if witness is None or self._hooks is None:
            return
        self._witness, size = witness, min(NUMBERS, witness.numel())

        def arrives(gradient: Tensor) -> None:
            if self._is_due and is_plain(gradient) and gradient.is_contiguous():
                numbers = numbers_of(gradient.detach(), size).float().clone()
                self._arrived = numbers if self._arrived is None else self._arrived + numbers

        self._hooks.register(cast("Any", witness).register_hook, "ranks", arrives)

    @torch.no_grad()
    def gather(self, optimiser: Optimizer | None) -> None:
        """Take the gradients that an optimiser's step uses."""
        if not self._is_due:
            return
        owned = ids_of(optimiser)
        gradients = {
            name: parameter.grad
            for name, parameter in self._plain.items()
            if id(parameter) in owned
            and parameter.grad is not None
            and not parameter.grad.is_sparse
        }
        if gradients:
            self._gradients |= norms(gradients)
        if self._witness is not None and id(self._witness) in owned:
            self._used = self._read_witness()

    def _read_witness(self) -> Tensor | None:
        """Numbers of the witness's gradient now, or of this rank's share of it."""
        witness = self._witness
        if witness is None or witness.grad is None:
            return None
        if self.reads_shares:
            return local(witness.grad).detach().reshape(-1)[:NUMBERS].float().clone()
        used = gradient_numbers(witness, min(NUMBERS, witness.numel()))
        return None if used is None else used.float().clone()

    def _read_averaged(self) -> None:
        """Read the gradient after a backward pass, which has averaged it over ranks."""
        self._arrived = self._guard("ranks", self._read_witness)

    @torch.no_grad()
    def end(self, step: int, metrics: AsyncMetrics) -> None:
        """Send the row of an update after its last step, and prepare the next one.

        Args:
            step: the update.
            metrics: takes the row.
        """
        if self._is_due:
            device = next(iter(self._anatomy.parameters.values())).device
            weights = {name: p.detach() for name, p in self._plain.items()}
            sums = torch.stack(self._paid).sum(0) if self._paid else None
            parts = (
                padded(self._by_group(norms(weights)), len(self.groups), device),
                padded(self._by_group(self._gradients), len(self.groups), device),
                padded(self._before, 1, device),
                padded(self._arrived, NUMBERS, device),
                padded(self._used, NUMBERS, device),
                padded(self._texts, TEXTS, device),
                padded(sums, 2, device),
            )
            values = torch.cat(parts)
            metrics.record(COLUMN, values, ("",) * len(values))
            rates = [
                number_in(group, "lr") or 0.0 for o in self._optimisers for group in o.param_groups
            ]
            self._host_rows.append((step, self._generator or 0, bool(self._draws), rates))
        self._clear()
        self._is_due = is_due(step + 1)

    def _by_group(self, norms: Mapping[str, Tensor]) -> Tensor | None:
        """The norm of each group of tensors; `UNKNOWN` for one that has none."""
        if not norms:
            return None
        unknown = torch.full_like(next(iter(norms.values())), UNKNOWN, dtype=torch.float64)
        groups = [[norms[name] for name in group if name in norms] for group in self.groups]
        return torch.stack([joined(group) if group else unknown for group in groups])

    @torch.no_grad()
    def last(self, step: int) -> RankRow | None:
        """The weights at the end of the training; None if its last update has a row.

        Args:
            step: finished updates.
        """
        if is_due(step) or not self._plain:
            return None
        weights = self._by_group(norms({name: p.detach() for name, p in self._plain.items()}))
        assert weights is not None
        return weights_row(step, [float(norm) for norm in weights])

    def take(self, numbers: Sequence[float]) -> RankRow:
        """The row that has arrived on the host."""
        step, generator, draws, rates = self._host_rows.pop(0)
        n = len(self.groups)
        sizes = (n, n, 1, NUMBERS, NUMBERS, TEXTS, 1, 1)
        parts: list[list[float]] = []
        for size in sizes:
            parts.append(list(numbers[:size]))
            numbers = numbers[size:]
        weights, gradients, before, arrived, used, texts, paid, weight = parts
        return RankRow(
            step=step,
            weights=weights,
            gradients=gradients,
            before=before[0],
            arrived=arrived,
            used=used,
            texts=texts,
            paid=paid[0],
            weight=weight[0],
            generator=generator,
            draws=draws,
            rates=rates,
        )
