"""The first batch of any training loop: its first rows become the probe."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.vitals.call.alignment import are_classes
from pellucid.vitals.call.answers import Answers
from pellucid.vitals.call.arguments import has_source
from pellucid.vitals.call.paid_targets import PaidTargets, first_places, paid_targets
from pellucid.vitals.call.prompt_answers import PromptAnswers
from pellucid.vitals.label_baselines import Baselines, baselines
from pellucid.vitals.ledger.latest_batch import LatestBatch
from pellucid.vitals.model_parts import decodes, table_of, unwrap
from pellucid.vitals.probe import Probe
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.taps.outputs import GradientHandle, logits_of, output_attribute
from pellucid.vitals.taps.recorded_call import (
    Call,
    LearningCalls,
    Uncuttable,
    ids_in,
    inputs_of,
    is_plain,
    targets_of,
)
from pellucid.vitals.taps.row_starts import RowStarts
from pellucid.vitals.taps.unlisted_weights import unlisted_weights

#: About how many tokens a probe has, and its most rows; it has at least one row.
_TOKENS, _ROWS = 512, 4
#: Most losses that are kept of an update.
MAX_LOSSES = 4096


class FirstBatch:
    """Hooks on the model's calls, which keep the first training call."""

    def __init__(self, model: nn.Module) -> None:
        self._model = self.model = unwrap(model)
        self._decodes = decodes(self._model)
        self.labels: Tensor | None = None
        #: the losses in the model's outputs since the last update
        self.losses: deque[Tensor] = deque(maxlen=MAX_LOSSES)
        #: whether losses in outputs are kept, and whether any outputs came since the last update
        self.reads_losses, self.has_run = True, False
        #: whether the losses of an update's parts add up to its loss, instead of being means
        self.adds_up = False
        #: why no call could be kept so far; empty before the first call
        self.reason = ""
        #: the targets that the loss of the first call pays for, once its gradient arrived
        self.paid: PaidTargets | None = None
        #: the weights behind the outputs of the first call that are not among the model's own
        self.unlisted: dict[str, nn.Parameter] = {}
        #: the type of the loop's autocast in the first call, if it has one
        self.autocast: torch.dtype | None = None
        self.first_ids: Tensor | None = None  # all of the first call
        #: what the first update does with each row
        self.answers = Answers()
        #: the rows of the first calls whose labels leave out a prompt
        self.prompt_answers = PromptAnswers()
        self.row_starts = RowStarts()
        self._calls = LearningCalls()
        self._call: Call | None = None
        self._watches_table = False
        self.latest = LatestBatch(has_source=has_source(self._model))
        self._awaits_logits, self._rows = False, 0  # of the first call, whose outputs may come
        self._predicts_classes = False  # its outputs are too few for its ids

    def attach(self, model: nn.Module, hooks: Hooks) -> None:
        """Add hooks to the model."""
        hooks.before(model, "the first batch", self._on_call, with_kwargs=True)
        on_output = partial(self._on_output, hooks)
        hooks.after(model, "outputs", on_output, with_kwargs=True, when_idle=on_output)
        if self._decodes is not None:
            # objectives call it for hidden states, and never the model itself
            embedding = self._model.get_submodule("token_embedding")
            hooks.before(embedding, "the first batch", self._on_embedding)

    def watch_table(self, hooks: Hooks) -> None:
        """Take ids from the table of embeddings: a loop may call the body alone, and not the model.

        Args:
            hooks: Take the hook.
        """
        table = None if self._watches_table else table_of(self._model)
        self._watches_table = True
        if table is not None:
            hooks.before(table, "the first batch", self._on_table)

    @property
    def is_done(self) -> bool:
        """Whether all was kept that it keeps of the first calls."""
        is_open = self.answers.is_open or self.answers.rewards.is_waiting or self._awaits_logits
        return bool(self._call or self.reason) and not is_open and self.prompt_answers.is_done

    @property
    def has_trained(self) -> bool:
        """Whether the model was called in training mode."""
        return self._calls.has_trained

    @property
    def call(self) -> Call | None:
        """The first call, cut to a few rows."""
        return self._call

    @property
    def targets(self) -> Tensor | None:
        """The target of each place of the first call; None if the meaning of labels is unknown."""
        if self._call is None:
            return None
        return targets_of(self._call, type(self._model).__name__, decodes=bool(self._decodes))

    def probe(self) -> Probe | None:
        """The probe, once there is a batch."""
        return None if self._call is None else Probe(self.calling(self._model), self.targets)

    def baselines(self) -> Baselines | None:
        """The losses that counting labels reaches, or else the targets that a gradient names."""
        labels = self.labels
        if labels is None and self.paid is not None and self.paid.names_targets:
            labels = self.paid.all
        if labels is None or labels.ndim != 2 or labels.is_floating_point():
            return None
        losses = baselines(labels)
        is_other = self._predicts_classes or are_classes(self.first_ids, labels)
        return None if is_other or not all(map(math.isfinite, losses)) else losses

    def calling(self, model: nn.Module) -> Callable[[], Tensor | None]:
        """A function that repeats the kept call, with this model or another."""
        assert self._call is not None
        call = self._call

        def repeat() -> Tensor | None:
            args, kwargs = call.copy()  # a model may write to its arguments
            return logits_of(model(*args, **kwargs))

        return repeat

    def head_size(self) -> int | None:
        """The rows of the output embedding of a model whose labels are tokens.

        A model that computes its own loss, in pieces, may give no logits.
        """
        labels, ids = self.labels, self.first_ids
        if labels is None or ids is None or labels.shape != ids.shape or labels.is_floating_point():
            return None
        head: Any = getattr(self._model, "get_output_embeddings", lambda: None)()
        weight = getattr(head, "weight", None)
        return len(weight) if isinstance(weight, Tensor) and weight.ndim == 2 else None

    def forget(self) -> None:
        """Forget the latest batch and its losses: the next update may show none."""
        self.losses.clear()
        self.latest.forget()
        self.has_run = False

    def _on_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        was_at_rest = not self._calls.has_trained
        if self._calls.include(module):
            if was_at_rest and self._calls.has_trained:
                self._begin_again()
            latest = self.latest
            latest.note(args, kwargs)
            if self._call is None:
                self._keep_call(args, kwargs)
            self.answers.on_training(latest.ids, latest.mask)
            self.prompt_answers.add(latest.ids, latest.labels)
        elif not torch.is_grad_enabled():
            ids = ids_in(inputs_of(args, kwargs))
            self.answers.on_writing(ids)
            self.prompt_answers.on_writing(ids)

    def _on_embedding(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._calls.include(self._model):
            self.latest.note_ids(args)
            if self._call is None:
                self._keep_call(args[:1], {})

    def _on_table(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.latest.ids is None and self._calls.include(self._model):
            self.latest.note_ids(args)

    def _begin_again(self) -> None:
        """Drop what calls in evaluation mode left, if the loop evaluated before it trains."""
        if self._call is None or self.paid is not None:
            return
        self._call, self._awaits_logits = None, False
        rewards, self.answers = self.answers.rewards, Answers()
        self.answers.rewards, self.prompt_answers = rewards, PromptAnswers()
        self.losses.clear()

    def _keep_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim]
        if not tensors or not tensors[0].numel():
            return
        batch = tensors[0].shape[0]
        length = tensors[0].shape[1] if tensors[0].ndim > 1 and is_plain(tensors[0]) else 1
        rows = self._rows = min(batch, _ROWS, max(1, _TOKENS // max(1, length)))
        try:
            self._call = Call(args, kwargs).rows(batch, rows)
        except Uncuttable as error:
            self.reason = str(error)
            return
        self.first_ids, self._awaits_logits = self.latest.ids, True
        device = tensors[0].device.type
        if torch.is_autocast_enabled(device):
            self.autocast = torch.get_autocast_dtype(device)
        labels = kwargs.get("labels")
        self.labels = labels.detach().clone() if isinstance(labels, Tensor) else None
        self.adds_up = kwargs.get("num_items_in_batch") is not None

    def _on_output(self, hooks: Hooks, module: nn.Module, *call: Any) -> None:
        """Take what a call takes and gives, in one hook, as each costs time."""
        args, kwargs, output = call
        if self.row_starts.is_due(module, kwargs):
            hooks.guard("the starts of rows", self.row_starts.keep, args, kwargs)
        if not self._calls.include(module):
            return
        self.has_run = True
        if self.reads_losses:
            hooks.guard("the model's own loss", self._take_loss, output)
        if self._awaits_logits:
            hooks.guard("the first targets", self._take_first_output, hooks, output)
            parts = module, output, call[:2]
            self.unlisted = hooks.guard("unlisted weights", unlisted_weights, *parts) or {}
        if self.answers.is_open:
            hooks.guard("answers.*", self._take_answers, hooks, output)

    def _take_loss(self, output: Any) -> None:
        loss = output_attribute(output, "loss")
        if isinstance(loss, Tensor) and loss.ndim == 0:
            self.losses.append(loss.detach())

    def _take_answers(self, hooks: Hooks, output: Any) -> None:
        def register(tensor: Tensor, take: Callable[[Tensor], None]) -> None:
            hooks.register(partial(GradientHandle, tensor), "answers.*", take)

        self.answers.on_outputs(logits_of(output), output, register)

    def _take_first_output(self, hooks: Hooks, output: Any) -> None:
        """Read the targets of the first call from the gradient of its logits, which comes later."""
        self._awaits_logits = False
        logits = logits_of(output)
        if logits is not None and self.first_ids is not None:
            self._predicts_classes = logits.shape[-1] <= int(self.first_ids.max())
        if logits is None or not logits.requires_grad or not is_plain(logits):
            return
        first = first_places(logits.detach(), self._rows).clone()  # a loop may write to its logits

        def take(gradient: Tensor) -> None:
            ids = self.first_ids
            is_placed = ids is not None and ids.shape == gradient.shape[:2]
            read_ids = ids if is_placed else None
            self.paid = paid_targets(gradient.detach(), first, self._model, read_ids)

        hooks.register(partial(GradientHandle, logits), "the first targets", take)
