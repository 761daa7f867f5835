"""The first batch of any training loop: its first rows become the probe."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.model.facts import TransformerFacts, UnknownFacts, model_facts
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.label_baselines import Baselines, baselines
from pellucid.vitals.model_parts import unwrap
from pellucid.vitals.probe import Probe
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.recorded_call import Call, Uncuttable, is_plain

#: About how many tokens a probe has, and its most rows; it has at least one row.
_TOKENS, _ROWS = 512, 4
#: Most losses that are kept of an update.
MAX_LOSSES = 4096
#: A row is repetitive if more than this share of it repeats with one of these periods; shorter rows
#: are not judged.
_PERIODS, _REPEATED_SHARE, _LONG = range(2, 9), 0.5, 32
#: Class names in transformers of models that shift their labels, which are the inputs.
_SHIFTED = ("ForCausalLM", "LMHeadModel")


class FirstBatch:
    """Hooks on the model's calls, which keep the first training call."""

    def __init__(self, model: nn.Module) -> None:
        self._model = unwrap(model)
        #: whether a pellucid model has a decoder; None for any other model
        self._decodes = _decodes(self._model)
        self.labels: Tensor | None = None
        #: the losses in the model's outputs since the last update
        self.losses: deque[Tensor] = deque(maxlen=MAX_LOSSES)
        #: whether the losses of an update's parts add up to its loss, instead of being means
        self.adds_up = False
        #: why no call could be kept so far; empty before the first call
        self.reason = ""
        self._call: Call | None = None
        #: the ids of the latest call
        self._ids: Tensor | None = None

    def attach(self, model: nn.Module, hooks: Hooks) -> None:
        """Add hooks to the model."""
        hooks.before(model, "the first batch", self._on_call, with_kwargs=True)
        hooks.after(model, "the model's own loss", self._on_output)
        if self._decodes is not None:
            # objectives call it for hidden states, and never the model itself
            embedding = self._model.get_submodule("token_embedding")
            hooks.before(embedding, "the first batch", self._on_embedding)

    def probe(self) -> Probe | None:
        """The probe, once there is a batch."""
        if self._call is None:
            return None
        return Probe(self.calling(self._model), self._targets())

    def baselines(self) -> Baselines | None:
        """The losses that counting the first batch's labels reaches; None without labels."""
        if self.labels is None or self.labels.ndim != 2:
            return None
        label_losses = baselines(self.labels)
        return label_losses if all(map(math.isfinite, label_losses)) else None

    def calling(self, model: nn.Module) -> Callable[[], Tensor | None]:
        """A function that repeats the kept call, with this model or another."""
        assert self._call is not None
        call = self._call

        def repeat() -> Tensor | None:
            args, kwargs = call.copy()  # a model may write to its arguments
            return logits_of(model(*args, **kwargs))

        return repeat

    def record(self, metrics: AsyncMetrics) -> None:
        """Record a number that identifies the latest batch, and the share of repetitive rows."""
        if self._ids is None:
            return
        flat = self._ids.flatten().double()
        places = torch.arange(flat.shape[0], device=flat.device) % 97 + 1
        metrics.record("batch", (flat * places).sum())  # a checksum of its ids
        if self._ids.ndim == 2 and self._ids.shape[1] >= _LONG:
            metrics.record("batch.repetitive", repetitive(self._ids))

    def _on_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _is_training(module):
            self._note_ids((*args, *kwargs.values()))
            if self._call is None:
                self._keep_call(args, kwargs)

    def _on_embedding(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if _is_training(self._model):
            self._note_ids(args)
            if self._call is None:
                self._keep_call(args[:1], {})

    def _note_ids(self, inputs: tuple[Any, ...]) -> None:
        ids = next((t for t in inputs if isinstance(t, Tensor) and t.ndim), None)
        numbers = ids is None or ids.is_floating_point() or ids.is_complex()
        if ids is not None and not numbers and is_plain(ids):
            self._ids = ids.detach()

    def _keep_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim]
        if not tensors or not tensors[0].numel():
            return
        batch = tensors[0].shape[0]
        length = tensors[0].shape[1] if tensors[0].ndim > 1 and is_plain(tensors[0]) else 1
        rows = min(batch, _ROWS, max(1, _TOKENS // max(1, length)))
        try:
            self._call = Call(args, kwargs).rows(batch, rows)
        except Uncuttable as error:
            self.reason = str(error)
            return
        labels = kwargs.get("labels")
        self.labels = labels.detach().clone() if isinstance(labels, Tensor) else None
        self.adds_up = kwargs.get("num_items_in_batch") is not None

    def _on_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        loss = _attribute(output, "loss") if _is_training(module) else None
        if isinstance(loss, Tensor) and loss.ndim == 0:
            self.losses.append(loss.detach())

    def _targets(self) -> Tensor | None:
        """The target of each place; None if the meaning of the labels is unknown."""
        assert self._call is not None
        args, kwargs = self._call.args, self._call.kwargs
        labels = kwargs.get("labels")
        kind = type(self._model).__name__
        if self._decodes:
            labels = args[0] if args else None
        elif not isinstance(labels, Tensor) or not kind.endswith((*_SHIFTED, "ForMaskedLM")):
            return None
        if not isinstance(labels, Tensor) or labels.ndim != 2:
            return None
        if kind.endswith("ForMaskedLM"):
            return labels
        targets = torch.full_like(labels, IGNORED)
        targets[:, :-1] = labels[:, 1:]
        return targets


def _is_training(module: nn.Module) -> bool:
    """Whether the loop learns from this call: a model that generates text does not."""
    return module.training and torch.is_grad_enabled()


def repetitive(ids: Tensor) -> Tensor:
    """The share of rows (batch, time) that mostly repeat one short piece of text.

    A token counts if it equals the one 2 to 8 places before it but not its predecessor: a row of
    padding repeats itself too, but is no text.
    """
    differs = ids[:, 1:] != ids[:, :-1]
    shares = [
        ((ids[:, d:] == ids[:, :-d]) & differs[:, d - 1 :]).double().mean(1) for d in _PERIODS
    ]
    return (torch.stack(shares).amax(0) > _REPEATED_SHARE).double().mean()


def logits_of(output: Any) -> Tensor | None:
    """The logits (batch, time, vocab) in a model's output; None if it has none."""
    logits = _attribute(output, "logits")
    if logits is None:
        logits = output
    if isinstance(logits, tuple | list):
        logits = next(
            (t for t in cast("list[Any]", logits) if isinstance(t, Tensor) and t.ndim == 3), None
        )
    good = isinstance(logits, Tensor) and logits.ndim == 3 and logits.is_floating_point()
    return cast("Tensor", logits) if good else None


def _attribute(output: Any, name: str) -> Any:
    if isinstance(output, Mapping):
        return cast("Mapping[str, Any]", output).get(name)
    return getattr(output, name, None)


def _decodes(model: nn.Module) -> bool | None:
    facts = model_facts(model)
    match facts:
        case TransformerFacts():
            return facts.stacks != "encoder"
        case UnknownFacts():
            return None
        case _:
            assert_never(facts)
