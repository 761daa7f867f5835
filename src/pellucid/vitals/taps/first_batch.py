"""The first batch of any training loop: its rows become the probe."""

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
from pellucid.vitals.model_parts import unwrapped
from pellucid.vitals.probe import Probe
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.recorded_call import Call, Uncuttable, is_plain

#: Tokens of the probe, about: one row at least, and four at most.
_TOKENS, _ROWS = 512, 4
#: So many losses of an update's parts are kept, at most.
_LOSSES = 4096
#: Texts that say one thing again and again: after so many tokens at most, for more than this share
#: of a row; shorter rows do not tell.
_PERIODS, _REPEATED_SHARE, _LONG = range(2, 9), 0.5, 32
#: How models of transformers are named whose labels are their inputs, to be shifted by the model.
_SHIFTED = ("ForCausalLM", "LMHeadModel")


class FirstBatch:
    """Hooks on the model as it is called; the first call that is training is kept."""

    def __init__(self, model: nn.Module) -> None:
        self._model = unwrapped(model)
        #: whether a pellucid model has a decoder; None for any other model
        self._decodes = _decodes(self._model)
        self.labels: Tensor | None = None
        #: the losses that the model gave since the last update, so many at most
        self.losses: deque[Tensor] = deque(maxlen=_LOSSES)
        #: whether the losses of an update's parts are shares that add up, and no means
        self.adds_up = False
        #: why no call could be kept so far; empty while none came by
        self.reason = ""
        self._call: Call | None = None
        #: the ids of the latest call
        self._ids: Tensor | None = None

    def attach(self, model: nn.Module, hooks: Hooks) -> None:
        """Listen to the model's calls."""
        hooks.before(model, "the first batch", self._hear_inputs, named=True)
        hooks.after(model, "the model's own loss", self._hear_output)
        if self._decodes is not None:
            # objectives ask it for hidden states, and never call the model itself
            embedding = self._model.get_submodule("token_embedding")
            hooks.before(embedding, "the first batch", self._embedded)

    def probe(self) -> Probe | None:
        """The probe, once a batch has come by."""
        if self._call is None:
            return None
        return Probe(self.calling(self._model), self._targets())

    def baselines(self) -> Baselines | None:
        """What the first batch's labels tell by themselves; None if they ask for nothing."""
        if self.labels is None or self.labels.ndim != 2:
            return None
        of_labels = baselines(self.labels)
        return of_labels if all(map(math.isfinite, of_labels)) else None

    def calling(self, model: nn.Module) -> Callable[[], Tensor | None]:
        """The captured call, of this model or another."""
        assert self._call is not None
        call = self._call

        def again() -> Tensor | None:
            args, kwargs = call.copy()  # a model may write to what it is given
            return logits_of(model(*args, **kwargs))

        return again

    def put(self, tape: AsyncMetrics) -> None:
        """Put what is known of the latest batch on the tape: a number for it, and its repeats."""
        if self._ids is None:
            return
        flat = self._ids.flatten().double()
        places = torch.arange(flat.shape[0], device=flat.device) % 97 + 1
        tape.put("batch", (flat * places).sum())  # another for other ids, but by chance
        if self._ids.ndim == 2 and self._ids.shape[1] >= _LONG:
            tape.put("batch.repetitive", repetitive(self._ids))

    def _hear_inputs(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if _is_training(module):
            self._see((*args, *kwargs.values()))
            if self._call is None:
                self._keep(args, kwargs)

    def _embedded(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if _is_training(self._model):
            self._see(args)
            if self._call is None:
                self._keep(args[:1], {})

    def _see(self, inputs: tuple[Any, ...]) -> None:
        ids = next((t for t in inputs if isinstance(t, Tensor) and t.ndim), None)
        numbers = ids is None or ids.is_floating_point() or ids.is_complex()
        if ids is not None and not numbers and is_plain(ids):
            self._ids = ids.detach()

    def _keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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

    def _hear_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        loss = _attribute(output, "loss") if _is_training(module) else None
        if isinstance(loss, Tensor) and loss.ndim == 0:
            self.losses.append(loss.detach())

    def _targets(self) -> Tensor | None:
        """The target of each place, where it is known what the labels mean."""
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
        ahead = torch.full_like(labels, IGNORED)
        ahead[:, :-1] = labels[:, 1:]
        return ahead


def _is_training(module: nn.Module) -> bool:
    """Whether this call is to be learnt from: a model that writes in between is not asked to."""
    return module.training and torch.is_grad_enabled()


def repetitive(ids: Tensor) -> Tensor:
    """The share of rows that are mostly one short piece of text, said again and again.

    ids: (batch, time). A token counts where it is the one of 2 to 8 places before and not the one
    just before: a row that is filled up with padding repeats itself too, and is no text.
    """
    apart = ids[:, 1:] != ids[:, :-1]
    shares = [((ids[:, d:] == ids[:, :-d]) & apart[:, d - 1 :]).double().mean(1) for d in _PERIODS]
    return (torch.stack(shares).amax(0) > _REPEATED_SHARE).double().mean()


def logits_of(made: Any) -> Tensor | None:
    """(batch, time, vocab) of what a model gave; None where there is none."""
    logits = _attribute(made, "logits")
    if logits is None:
        logits = made
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
