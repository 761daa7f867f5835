"""A few numbers of a few weights: enough to see what happens to all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.vitals.model_parts import local
from pellucid.vitals.step_signs import number_in

#: Most witnesses, and the numbers of each.
_WITNESSES, _NUMBERS = 12, 32


class Witnesses:
    """Some weights of each optimiser, spread over its groups.

    Args:
        optimisers: Those that step.
    """

    def __init__(self, optimisers: Sequence[Optimizer]) -> None:
        pairs = _spread(list(_usable(optimisers)))
        self.parameters = [parameter for _, parameter, _ in pairs]
        self._groups = [group for _, _, group in pairs]
        self.sizes = [min(_NUMBERS, parameter.numel()) for parameter in self.parameters]
        self.device = self.parameters[0].device if pairs else torch.device("cpu")
        #: the places of each optimiser's witnesses, which lie together
        self.places: dict[Optimizer, range] = {}
        for place, (optimiser, _, _) in enumerate(pairs):
            first = self.places.get(optimiser, range(place, place)).start
            self.places[optimiser] = range(first, place + 1)
        self.optimisers = [optimiser for optimiser, _, _ in pairs]
        self._views: list[Tensor] = [*self.parameters]
        self._addresses: list[int | None] = [None] * len(pairs)
        #: the first update that the first optimiser remembers, as far as was seen
        self._memory_start: int | None = None

    @property
    def are_frozen(self) -> bool:
        """Whether one of them is no longer trained."""
        return not all(parameter.requires_grad for parameter in self.parameters)

    def weights(self) -> list[Tensor]:
        """The numbers of each witness now, as views."""
        return [self.weight(place) for place in range(len(self.parameters))]

    def weight(self, place: int) -> Tensor:
        """The numbers of one witness now, as a view."""
        parameter = self.parameters[place]
        address = parameter.data_ptr()
        if self._addresses[place] != address:  # a loop may give a parameter other memory
            self._views[place] = numbers_of(parameter.detach(), self.sizes[place])
            self._addresses[place] = address
        return self._views[place]

    def gradients(self, places: range) -> list[Tensor | None]:
        """The numbers of the gradient of each witness; None if it has no gradient."""
        return [gradient_numbers(self.parameters[place], self.sizes[place]) for place in places]

    @cached_property
    def first_vector(self) -> int:
        """The place of a small one: a gain or a bias has a part in every call."""
        return next((i for i, p in enumerate(self.parameters) if p.ndim == 1), 0)

    def look_at_memory(self, step: int) -> None:
        """Note whether the first optimiser remembers anything before an update."""
        if not remembers(self.optimisers[0], self.parameters[0]):
            self._memory_start = step

    def age(self, step: int) -> int | None:
        """The steps that the first optimiser remembers after an update, by its count or as seen.

        None without a memory or a gradient.
        """
        optimiser, parameter = self.optimisers[0], self.parameters[0]
        age = age_of(optimiser, parameter)
        if age is not None or parameter.grad is None or not remembers(optimiser, parameter):
            return age
        if self._memory_start is None:  # it came with a memory
            self._memory_start = step
        return step - self._memory_start + 1

    def span(self, places: range) -> slice:
        """The columns of some witnesses in a row of all numbers."""
        start = sum(self.sizes[: places.start])
        return slice(start, start + sum(self.sizes[place] for place in places))

    @cached_property
    def matrix_columns(self) -> Tensor:
        """The columns (matrices, numbers) of each matrix that has enough numbers."""
        starts = [
            self.span(range(place, place + 1)).start
            for place, parameter in enumerate(self.parameters)
            if parameter.ndim > 1 and self.sizes[place] == _NUMBERS
        ]
        first = torch.tensor(starts, dtype=torch.long, device=self.device)
        return first[:, None] + torch.arange(_NUMBERS, device=self.device)

    def coupled_decay(self) -> Tensor:
        """The decay that an adaptive optimiser adds to the gradient, for each number."""
        decays = [
            _coupled_decay(optimiser, group)
            for optimiser, group in zip(self.optimisers, self._groups, strict=True)
        ]
        return torch.tensor(decays, dtype=torch.float64).repeat_interleave(
            torch.tensor(self.sizes, dtype=torch.long)
        )

    def narrow(self) -> Tensor:
        """For each number, whether its weight has 16 bits."""
        narrow = [parameter.dtype.itemsize < 4 for parameter in self.parameters]
        return torch.tensor(narrow).repeat_interleave(torch.tensor(self.sizes, dtype=torch.long))


def numbers_of(tensor: Tensor, size: int) -> Tensor:
    """So many numbers of a tensor in one piece of memory, evenly spread, as a view."""
    # an odd stride reaches all columns of a matrix whose width is a power of two
    stride = max(1, (tensor.numel() // size - 1) | 1)
    return torch.as_strided(tensor, (size,), (stride,))


def gradient_numbers(parameter: nn.Parameter, size: int) -> Tensor | None:
    """The numbers of a parameter's gradient; None without one that can be read this way."""
    gradient = parameter.grad
    return None if gradient is None or not _is_whole(gradient) else numbers_of(gradient, size)


def age_of(optimiser: Optimizer, parameter: nn.Parameter) -> int | None:
    """The steps that an optimiser remembers of a parameter; None if that is not on the host.

    None without a gradient too: then the optimiser has not counted this step.
    """
    if parameter.grad is None:
        return None
    state = cast("dict[str, Any]", optimiser.state.get(parameter) or {})
    steps: Any = state.get("step")
    if isinstance(steps, Tensor) and steps.device.type != "cpu":
        return None  # reading it would wait for the device
    age = number_in(state, "step")
    return None if age is None else int(age)


def remembers(optimiser: Optimizer, parameter: nn.Parameter) -> bool:
    """Whether an optimiser has a memory of a parameter: plain descent has none."""
    state = cast("dict[str, Any]", optimiser.state.get(parameter) or {})
    return any(value is not None for value in state.values())


def _usable(
    optimisers: Sequence[Optimizer],
) -> Iterator[tuple[Optimizer, nn.Parameter, dict[str, Any]]]:
    device: torch.device | None = None
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for parameter in cast("list[nn.Parameter]", group["params"]):
                if not parameter.requires_grad or not _is_whole(parameter):
                    continue
                device = device or parameter.device
                if parameter.device == device:
                    yield optimiser, parameter, group


def _is_whole(tensor: Tensor) -> bool:
    """Whether it is numbers in one piece of memory of this process."""
    return (
        tensor.layout is torch.strided
        and tensor.is_floating_point()
        and not tensor.is_meta
        and (type(tensor) is Tensor or local(tensor) is tensor)
        and tensor.numel() > 0
        and tensor.is_contiguous()
    )


def _spread(triples: list[Any]) -> list[Any]:
    """At most so many, evenly spread; those that have a gradient now go first."""
    learning = [triple for triple in triples if triple[1].grad is not None]
    triples = learning or triples
    if len(triples) <= _WITNESSES:
        return triples
    # the first and the last are among them
    places = [round(i * (len(triples) - 1) / (_WITNESSES - 1)) for i in range(_WITNESSES)]
    return [triples[place] for place in dict.fromkeys(places)]


def _coupled_decay(optimiser: Optimizer, group: dict[str, Any]) -> float:
    """The weight decay of Adam and its kind, if it goes through the division by their own size."""
    kinds = (torch.optim.Adam, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax)
    if not isinstance(optimiser, kinds) or "AdamW" in type(optimiser).__name__:
        return 0.0
    is_decoupled = bool(group.get("decoupled_weight_decay"))
    return 0.0 if is_decoupled else number_in(group, "weight_decay") or 0.0
