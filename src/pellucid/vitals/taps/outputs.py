"""What a model returns, in whatever form: its logits, and other values by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from torch import Tensor

from pellucid.vitals.taps.recorded_call import is_plain

#: Names of outputs that are not logits of tokens.
_OUTPUTS = ("logits", "last_hidden_state", "scores")


def tensors_in(value: object) -> Iterator[Tensor]:
    """All tensors in a value, such as the arguments of a call or what it returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[object, object]", value).values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in cast("Sequence[object]", value):
            yield from tensors_in(item)


def logits_of(output: Any) -> Tensor | None:
    """The logits (batch, time, vocab) in a model's output; None if it has none."""
    logits = output_attribute(output, "logits")
    if logits is None:
        logits = output
    if isinstance(logits, tuple | list):
        logits = next(
            (t for t in cast("list[Any]", logits) if isinstance(t, Tensor) and t.ndim == 3), None
        )
    good = isinstance(logits, Tensor) and logits.ndim == 3 and logits.is_floating_point()
    return cast("Tensor", logits) if good else None


class GradientHandle:
    """Hooks on a tensor that a model returned, and on the one that it is a copy of.

    Accelerate, and so `Trainer`, returns copies in single precision. The model's own loss is of the
    original, and its gradient never reaches the copy.

    Args:
        tensor: What the model returned, with a gradient.
        take: Takes the gradient, once in each backward pass.
    """

    def __init__(self, tensor: Tensor, take: Callable[[Tensor], object]) -> None:
        self._take, self._is_taken = take, False
        of_tensor: Any = tensor
        self._handles = [of_tensor.register_hook(self._on_copy)]
        node: Any = tensor.grad_fn
        inner, self._index = node.next_functions[0] if _is_copy(node) else (None, 0)
        if inner is not None:
            self._handles.append(inner.register_prehook(self._on_original))

    def _on_copy(self, gradient: Tensor | None) -> None:
        if gradient is None:  # the loss of a compiled model has no use for what it returns
            return
        self._is_taken = True
        self._take(gradient)

    def _on_original(self, gradients: tuple[Tensor | None, ...]) -> None:
        gradient, was_taken = gradients[self._index], self._is_taken
        self._is_taken = False
        if gradient is not None and not was_taken:
            self._take(gradient)

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()


def _is_copy(node: Any) -> bool:
    """Whether a tensor was made by a change of its type, as the name of its node says."""
    return node is not None and node.name() == "ToCopyBackward0" and bool(node.next_functions)


def output_attribute(output: Any, name: str) -> Any:
    """A value that a model returns under this name; None if there is none.

    A user's output may raise any error for a name that it does not have.
    """
    if isinstance(output, Mapping):
        return cast("Mapping[str, Any]", output).get(name)
    with suppress(Exception):
        return getattr(output, name, None)
    return None


def outputs_in(returned: Any, logits: Tensor | None) -> Tensor | None:
    """The outputs of a call: logits of tokens, else of rows, else the states of tokens.

    Scores (rows) count as (rows, 1).
    """
    if logits is not None:
        return logits
    output: Any = returned
    values = [output_attribute(output, name) for name in _OUTPUTS]
    values += output if isinstance(returned, tuple | list) else [output]
    is_output = (isinstance(v, Tensor) and v.is_floating_point() and v.ndim > 0 for v in values)
    outputs = [v for v, good in zip(values, is_output, strict=True) if good]
    scores = [v[:, None] for v in outputs if v.ndim == 1]
    return next(iter([v for v in outputs if v.ndim > 1] + scores), None)


def log_ps_in(output: Any) -> tuple[Tensor, Tensor | None] | None:
    """log P of each token (rows, places), and entropies if the call gives them."""
    log_ps, entropies = (output_attribute(output, name) for name in ("log_probs", "entropy"))
    if not isinstance(log_ps, Tensor) or log_ps.ndim != 2 or not log_ps.requires_grad:
        return None
    if not is_plain(log_ps) or not log_ps.numel():
        return None
    has_entropies = isinstance(entropies, Tensor) and entropies.shape == log_ps.shape
    return log_ps, entropies if has_entropies else None


def scores_in(output: Any) -> Tensor | None:
    """One number for each row, as a reward model gives it; None if there is none."""
    named: Any = output_attribute(output, "logits")
    if named is None:
        named = output
    values = cast("Sequence[Any]", named) if isinstance(named, tuple | list) else (named,)
    for value in values:
        if isinstance(value, Tensor) and value.requires_grad and is_plain(value):
            is_score = value.ndim == 1 or (value.ndim == 2 and value.shape[1] == 1)
            if is_score and value.is_floating_point() and len(value) > 1:
                return value
    return None
