"""What the outputs of a call depend on, from a few repetitions of it with other inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.typed import named_modules
from pellucid.vitals.call.alignment import count_changed
from pellucid.vitals.call.arguments import Arguments, Place, foreign_config, other_ids
from pellucid.vitals.taps.dropout_calls import DropoutCalls
from pellucid.vitals.taps.restore import reading_mode

#: A larger change of an output is no rounding: in half precision, and in others.
_ROUNDING = {False: 1e-4, True: 1e-2}
_HALF = (torch.float16, torch.bfloat16)


class Repetition:
    """Repeats a call in the loop's autocast.

    It runs in evaluation mode, as every reading does: dropout would hide small changes, and a
    user's hooks may count the passes of training.

    Args:
        model: The model that was called.
        autocast: The type of the loop's autocast; None without one.
        outputs_of: Finds the outputs in what the model returns.
    """

    def __init__(
        self,
        model: nn.Module,
        autocast: torch.dtype | None,
        outputs_of: Callable[[Any], Tensor | None],
    ) -> None:
        self._model = model
        self._autocast = autocast
        self._outputs_of = outputs_of
        #: whether all rows of a batch matter to each by design
        self.mixes_rows = any(map(_is_of_batch, model.modules()))
        #: whether weights of zero may hide a part of the model before its first update
        self.starts_at_zero = any(map(_is_gate_of_zero, model.parameters()))
        #: forward passes so far
        self.passes = 0
        self._is_half = autocast in _HALF or any(p.dtype in _HALF for p in model.parameters())
        #: whether the model turns on an autocast within its call, as a trainer may let it do
        self._has_own_autocast = False

    def __call__(self, arguments: Arguments) -> Tensor | None:
        """The outputs of the call with these arguments."""
        self.passes += 1
        args, kwargs = arguments.call.copy()
        device, kind = arguments.inputs.device.type, self._autocast
        autocast = nullcontext() if kind is None else torch.autocast(device, kind)
        with reading_mode(self._model), autocast:
            return self._outputs_of(self._model(*args, **kwargs))

    @property
    def is_half(self) -> bool:
        """Whether the call computes in half precision, as far as its repetitions have shown."""
        return self._is_half or self._has_own_autocast

    def over_rounding(self, value: float) -> float:
        """A change of an output, of its size; 0 if it may be rounding."""
        return value if value > _ROUNDING[self.is_half] else 0.0

    def takes_mask(self) -> bool:
        """Whether the parts of transformers take a mask of padding; True without such a part."""
        parts = [part for part in self._model.modules() if foreign_config(part) is not None]
        names = {name for part in parts for name in inspect.signature(part.forward).parameters}
        return not parts or any("mask" in name for name in names)

    def id_of_padding(self) -> int | None:
        """The id that a table of embeddings keeps at zero; None without one."""
        tables = (module for module in self._model.modules() if isinstance(module, nn.Embedding))
        return next((t.padding_idx for t in tables if t.padding_idx is not None), None)

    def move_of_later(
        self, arguments: Arguments, before: Tensor, starts: Sequence[int]
    ) -> float | None:
        """How far outputs move with the tokens before them, of their size; None if none can change.

        With very small weights no token moves another one's output. Then nothing is known of the
        tokens after it either.

        Args:
            arguments: The call's.
            before: Its outputs.
            starts: For each row, the place before which all tokens change.
        """
        is_earlier = torch.zeros(arguments.inputs.shape[:2], dtype=torch.bool)
        for row, start in enumerate(starts):
            is_earlier[row, :start] = True
        changes = self._changes(arguments, before, is_earlier)
        if changes is None:
            return None
        return max(float(changes[row, start:].max()) for row, start in enumerate(starts))

    def move_of_rows(self, arguments: Arguments, before: Tensor, n_rows: int, start: int) -> float:
        """How far outputs move if all tokens of the first rows change, of their size.

        The call's mask may hide a part of each row on purpose, as one of two texts.

        Args:
            arguments: The call's.
            before: Its outputs.
            n_rows: So many rows change.
            start: Tokens before this place stay.
        """
        is_changed = torch.zeros(arguments.inputs.shape[:2], dtype=torch.bool)
        is_changed[:n_rows, start:] = True
        changes = self._changes(arguments, before, is_changed)
        return 0.0 if changes is None else float(changes[:n_rows].max())

    def move_of_order(self, arguments: Arguments) -> dict[str, float]:
        """How far outputs move if the same rows come in the opposite order, of their size.

        Nothing if an argument of other meaning may be as long as the call has rows.

        Args:
            arguments: The call's.
        """
        n_rows, time = arguments.inputs.shape[:2]
        if n_rows in (1, time):
            return {}
        opposite = arguments.with_rows(torch.arange(n_rows - 1, -1, -1))
        before, after = self(arguments), self(opposite)
        if before is None or after is None or after.shape != before.shape:
            return {}
        return {"call.row_order": self.over_rounding(float(change(before, after.flip(0)).max()))}

    def _changes(self, arguments: Arguments, before: Tensor, is_changed: Tensor) -> Tensor | None:
        """How far outputs move if some tokens change; None if none can."""
        variant = with_changes(arguments, arguments.ids, is_changed.to(arguments.inputs.device))
        after = None if variant is None else self(variant)
        if after is None or after.shape != before.shape:
            return None
        return change(before, after)

    def randomness(self, arguments: Arguments, before: Tensor) -> tuple[str, float]:
        """The sign of random outputs: how far they are from those of the same call before.

        Random generators go on between the two, and back to where the training left them.

        Args:
            arguments: Those of the call.
            before: Its outputs.

        Returns:
            The sign's id, which says whether one of torch's functions of dropout runs, and the
            distance, of the outputs' size.
        """
        device = arguments.inputs.device
        if device.type not in ("cpu", "cuda"):
            return "call.random", 0.0  # other generators are not put back
        with reading_mode(self._model), DropoutCalls() as dropout:
            torch.rand((), device=device)
            torch.rand(())
            after = self(arguments)
        if after is None or after.shape != before.shape:
            return "call.random", 0.0
        id = "call.random" if dropout.share > 0 else "call.drawn"
        return id, float(change(before, after).max())

    @contextmanager
    def noting(self, *notes: Callable[[str, nn.Module, Any], None]) -> Generator[None]:
        """Call `notes` with the name, the module and the arguments of each module that runs."""
        handles: list[Any] = []
        try:
            for name, module in named_modules(self._model).items():
                hook = self._noting(notes, name)
                handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _noting(
        self, notes: Sequence[Callable[[str, nn.Module, Any], None]], name: str
    ) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._has_own_autocast |= _is_in_half()
            for note in notes:
                note(name, module, (*args, *kwargs.values()))

        return hook


def _is_of_batch(module: nn.Module) -> bool:
    """Whether it drops tokens over a capacity, or takes its statistics from the batch alone."""
    is_norm = isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    return any("capacity" in n for n in vars(module)) or (is_norm and module.running_mean is None)


def _is_in_half() -> bool:
    """Whether an autocast to half precision is on, on any device that has one."""
    kinds = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
    return any(torch.get_autocast_dtype(kind) != torch.float32 for kind in kinds)


def _is_gate_of_zero(weight: nn.Parameter) -> bool:
    """Whether all of a matrix, or a single number, is zero: nothing passes through it yet."""
    is_gate = weight.ndim >= 2 or weight.numel() == 1
    return is_gate and not weight.is_meta and not bool(weight.detach().any())


def change(before: Tensor, after: Tensor) -> Tensor:
    """The largest change of each (row, time), or of each row, relative to the outputs' size."""
    before, after = before.double(), after.double()
    size = (before - before.mean(-1, keepdim=True)).square().mean().sqrt()
    if before.shape[-1] == 1:
        size = before.square().mean().sqrt()
    return (after - before).abs().amax(-1) / size.clamp_min(1e-30)


def has_places(inputs: Tensor) -> bool:
    """Whether a row is one text of several places: ids (rows, choices, time) are more texts."""
    is_one_text = inputs.ndim == 2 or (inputs.ndim > 2 and inputs.is_floating_point())
    return is_one_text and inputs.shape[1] > 1


def are_of_rows(outputs: Tensor, inputs: Tensor, ids: Tensor | None) -> bool:
    """Whether outputs are classes of each row, so that the first axis of ids holds the rows.

    A comparison of all rows with each other gives as many numbers as there are rows.

    Args:
        outputs: Those of a few rows.
        inputs: The ids of these.
        ids: The ids of all rows.
    """
    if inputs.ndim != 2 or ids is None or outputs.ndim != 2 or len(inputs) == inputs.shape[1]:
        return False
    return len(outputs) == len(inputs) and 1 < outputs.shape[1] not in (len(inputs), len(ids))


def with_other_rows(
    arguments: Arguments, places: Sequence[tuple[int, int, int]] | None
) -> Arguments | None:
    """The call with other inputs in all rows but the last; None if nothing changes.

    Args:
        arguments: The call's.
        places: For each row, the first place that changes, and the one behind the last; without
            places, whole rows change.
    """
    inputs = arguments.inputs
    is_changed = torch.zeros(inputs.shape[: 1 if places is None else 2], dtype=torch.bool)
    for row, (first, last, _) in enumerate(places or ()):
        is_changed[row, first:last] = True
    if places is None:
        is_changed[: count_changed(inputs)] = True
    return with_changes(arguments, arguments.ids, is_changed.to(inputs.device))


def with_changes(arguments: Arguments, place: Place, is_changed: Tensor) -> Arguments | None:
    """The call with other ids, or other vectors, where `is_changed` (rows, time) is True.

    None if nothing changes, because there is only one id.
    """
    inputs = arguments.tensor(place)
    assert inputs is not None
    if inputs.is_floating_point() or inputs.is_complex():
        other = inputs.roll(1, -1)
    else:
        other = other_ids(inputs, arguments.special)
    mask = is_changed.reshape(*is_changed.shape, *(1,) * (inputs.ndim - is_changed.ndim))
    tensor = torch.where(mask, other, inputs)
    return None if torch.equal(tensor, inputs) else arguments.with_inputs(place, tensor)


def _shorter(arguments: Arguments, time: int, length: int) -> Arguments:
    """The call with only the first `length` places of texts of `time` places."""

    def cut(tensor: Tensor) -> Tensor:
        if tensor.ndim == 4 and tensor.shape[-1] == time:  # a mask of queries and keys
            tensor = tensor[..., :length]
            return tensor[:, :, :length] if tensor.shape[-2] == time else tensor
        return tensor[:, :length] if tensor.ndim >= 2 and tensor.shape[1] == time else tensor

    return arguments.map(cut)


def without_padding(arguments: Arguments, time: int, length: int, *, is_half: bool) -> Arguments:
    """The call of a row without its padding; in half precision, with a token in its place.

    Fewer places are computed by other kernels, whose rounding is no influence of the padding.
    """
    inputs = arguments.tensor(arguments.masked)
    if inputs is None or arguments.mask is None or not is_half:
        return _shorter(arguments, time, length)
    is_text = torch.arange(time, device=inputs.device) < length
    token = inputs[:, length // 2 : length // 2 + 1]
    return arguments.with_inputs(arguments.masked, torch.where(is_text, inputs, token))
