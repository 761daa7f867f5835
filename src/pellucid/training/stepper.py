"""The stepper: it makes one update after another, and alone knows on what they are computed.

The loop hands it batches and learning rates. To train in another way, for example on many machines,
you replace the stepper and leave the loop as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import Batch
from pellucid.checkpoints import Place, first_non_finite
from pellucid.model import Transformer, assemble_balancing, rest_dropout
from pellucid.objectives import Objective, compiling_loss
from pellucid.optim import Optimiser
from pellucid.parallel import World
from pellucid.rounded_weights import ExactTensors
from pellucid.training.averaging import WeightAverage
from pellucid.training.non_finite import Culprit, find_culprit, first_culprit
from pellucid.training.randomness import seed_part, seed_step
from pellucid.training.step import Precision, Share, StepNumbers, accumulate, update

#: The buffers that each forward pass moves: the running statistics of norms.
_STATISTICS = ("running_mean", "running_var")


#: Weights and moments of so many bytes are gathered for a checkpoint; of more, each rank writes its
#: share.
GATHERED_BYTES = 8 * 10**9


class TrainedState(NamedTuple):
    """What training changes: the model's tensors and the optimiser's, by name.

    Attributes:
        model: tensors by name.
        optimiser: tensors by name.
        places: where this rank's shares are, by name; None if the tensors are whole.
    """

    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    places: Mapping[str, Place] | None = None


class Stepper:
    """Makes updates on one device.

    It owns the device, the precision, the parts that a batch is cut into, the clipping of
    gradients, and the gate that keeps a value which is not finite out of the weights.

    Args:
        model: the model to update, on its device.
        objective: computes the loss of a batch.
        optimiser: updates the model's parameters.
        settings: the parts of a batch (`accumulation`) and the largest norm of the gradient
            (`clip_norm`).
        plan: the device and the precision.
        seed: the run's seed: each update seeds all generators by it and its step.
        closed: keep the gate closed, so that no update changes anything: to measure time.
        world: the ranks that share each batch.
        average: the moving average of the model's weights.
        has_dropout: whether the update that follows so many updates has dropout, if the model has
            any; by default each has.
    """

    def __init__(
        self,
        model: Transformer,
        objective: Objective,
        optimiser: Optimiser,
        *,
        settings: config.Training,
        plan: config.Plan,
        seed: int,
        closed: bool = False,
        world: World | None = None,
        average: WeightAverage | None = None,
        has_dropout: Callable[[int], bool] = lambda step: True,
    ) -> None:
        self._model = model
        self._objective = objective
        self._optimiser = optimiser
        self._balancing = assemble_balancing(model)
        self._parts = plan.parts or settings.accumulation
        self._world = world or World()
        self._average = average
        self._has_dropout = has_dropout
        self._seeding, self._compile_loss = plan.seeding, plan.compile_loss
        self._statistics = [
            buffer for name, buffer in model.named_buffers() if name.endswith(_STATISTICS)
        ]
        self._clip_norm = settings.clip_norm
        self._device = torch.device(plan.device)
        self._precision: Precision = plan.precision
        self._seed = seed
        self._blocked = torch.full((), float(closed), device=self._device)

    def update(self, batch: Batch, *, step: int, factor: float) -> StepNumbers:
        """Make the update that follows `step` updates; does not wait for the device.

        Args:
            batch: the examples that this rank learns from, on any device.
            step: how many updates are done.
            factor: the share of the peak learning rate.
        """
        self._set_mode(step)
        seed_step(self._seed, step)
        with compiling_loss(self._compile_loss):
            numbers = update(
                self._model,
                self._objective,
                self._optimiser,
                batch,
                factor=factor,
                clip_norm=self._clip_norm,
                blocked=self._blocked,
                accumulation=self._parts,
                device=self._device,
                precision=self._precision,
                balancing=self._balancing,
                share=self._share(step),
            )
        self._world.average_(self._statistics)
        if self._average is not None:
            self._average.update(step, numbers.blocked)
        self._blocked = numbers.blocked
        return numbers

    def _set_mode(self, step: int) -> None:
        self._model.train()
        if not self._has_dropout(step):
            rest_dropout(self._model)

    def _share(self, step: int) -> Share:
        """The numbers of this rank's parts among those of all ranks."""
        n_own = self._parts // self._world.n_data
        first = self._world.data_rank * n_own
        numbers = range(first, first + n_own)
        if self._seeding == "by_update":
            return replace(Share.all_parts(self._parts), numbers=numbers, world=self._world)
        return Share(numbers, partial(seed_part, self._seed, step), self._world)

    def find_culprit(self, make_batch: Callable[[], Batch], *, step: int) -> Culprit:
        """Repeat the update that follows `step` updates, and find its first value not finite.

        The gradients stay on the parameters. `make_batch` is called with the generators seeded as
        they were for the update.
        """

        def repeat() -> Tensor:
            self._optimiser.zero_grad()
            self._set_mode(step)
            seed_step(self._seed, step)
            batch = make_batch()
            seed_step(self._seed, step)
            sums = accumulate(
                self._model,
                self._objective,
                batch,
                accumulation=self._parts,
                device=self._device,
                precision=self._precision,
                balancing=self._balancing,
                share=self._share(step),
            )
            return sums["total"]

        return first_culprit(self._model, self._world.gather(find_culprit(self._model, repeat)))

    def whole_state(self) -> TrainedState:
        """Everything that updates change, complete, under the names that a checkpoint uses."""
        full = self._world.full
        model, optimiser = ExactTensors(self._model), self._optimiser.state_tensors()
        if model.rounded:  # no ranks share them, and no average is kept
            return TrainedState(model, optimiser)
        if self._average is not None:
            optimiser |= self._average.tensors()
        return TrainedState(
            {name: full(tensor) for name, tensor in model.items()},
            {name: full(tensor) for name, tensor in optimiser.items()},
        )

    def state(self) -> TrainedState:
        """The `whole_state`; if it is large and sharded, only what this rank holds of it."""
        model, optimiser = self._model.state_dict(), self._optimiser.state_tensors()
        tensors = {**model, **optimiser}
        n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if not self._world.is_sharded or n_bytes <= GATHERED_BYTES:
            return self.whole_state()
        places = {name: self._world.place(tensor) for name, tensor in tensors.items()}
        local = self._world.local
        return TrainedState(
            {name: local(tensor) for name, tensor in model.items()},
            {name: local(tensor) for name, tensor in optimiser.items()},
            {name: Place(*place) for name, place in places.items() if place is not None},
        )

    def has_finite_weights(self) -> bool:
        """Whether every parameter is finite."""
        parameters = self._model.named_parameters()
        culprit = first_non_finite({name: self._world.local(p.detach()) for name, p in parameters})
        return self._world.largest(int(culprit is not None)) == (0,)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the latest update."""
        return self._optimiser.learning_rate

    @property
    def runs_ahead(self) -> bool:
        """Whether `update` may return before the device has computed it."""
        return self._device.type != "cpu"

    def wait(self) -> None:
        """Wait until the device has computed every update."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def memory_in_use(self) -> int | None:
        """The most memory that the run has held, in bytes; None if the system does not say."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        try:
            import resource
        except ImportError:  # Windows
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
