"""Check the call of a model that a training makes, with its own arguments.

For every model whose outputs follow a batch: of tokens, of classes, of numbers, of rewards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis.batches import Examples
from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding, describe
from pellucid.diagnosis.history.history import History, Reading
from pellucid.diagnosis.not_examined import ProbeRunner
from pellucid.diagnosis.preserve_state import preserve_state
from pellucid.diagnosis.probes.special_tokens import probe_text
from pellucid.diagnosis.probes.trial_updates import parameter_ids
from pellucid.diagnosis.probes.weights import probe_numbers
from pellucid.errors import PellucidError
from pellucid.training import Guard, error_line, silently
from pellucid.vitals import Record
from pellucid.vitals.call.single_call import probe_call

_PAIR = ("chosen_", "rejected_")


def check_call(
    model: nn.Module,
    batch: Mapping[str, Any],
    *,
    optimizer: Any | None = None,
    tokenizer: Any | None = None,
    loss: Any = None,
    held_out: Tensor | None = None,
    declared: Expectations | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """Repeat a call with its own arguments and with others, and find its faults.

    Args:
        model: the module that is called.
        batch: its arguments by name. Those that begin with `chosen_` and `rejected_` are joined to
            one batch, as trainers of preferences do.
        optimizer: the optimiser, if you want to test it too.
        tokenizer: the tokenizer, if you want to test the ids too.
        loss: a function of (model, batch) that gives the loss; by default the model's own.
        held_out: (rows, time) ids of the texts that training must not hold.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: the model cannot be called with the batch.
    """
    if loss is not None and not callable(loss):
        raise PellucidError(
            "with a batch of arguments, loss must be a function of (model, batch), was "
            f"{loss!r:.40}"
        )
    batch, run = _joined(batch), ProbeRunner()
    findings = run(probe_numbers, model) or []
    with silently(), preserve_state(model, training=True):
        _try_call(model, batch, loss)
        record = run(probe_call, model, batch, Guard(run.note), loss) or Record()
    signs = record.signs
    if optimizer is not None:
        findings += _without_optimiser(model, optimizer)
    ids = batch.get("input_ids")
    if isinstance(ids, Tensor) and ids.ndim == 2 and not ids.is_floating_point():
        labels = batch.get("labels")
        is_text = isinstance(labels, Tensor) and labels.shape == ids.shape
        data = Examples((ids,), cast("Tensor", labels) if is_text else None)
        findings += run(probe_text, data, tokenizer, held_out) or []
    history = History(
        name=type(model).__name__,
        signs={id: tuple(Reading(*p) for p in series.points) for id, series in signs.items()},
        findings=(*findings, *run.unseen),
    )
    findings = diagnose(history, declared=declared, ignore=tuple(ignore))
    return [replace(finding, step=0) for finding in findings]  # no update was made


def _try_call(model: nn.Module, batch: Mapping[str, Any], loss: Any) -> None:
    """Call the model once, so that a batch that does not fit is refused in plain words."""
    try:
        with torch.no_grad():
            _ = model(**batch) if loss is None else loss(model, batch)
    except Exception as error:
        raise PellucidError(
            f"{type(model).__name__} cannot be called with {', '.join(batch)}: "
            f"{error_line(error)}. Pass the arguments of your loop's own call, and "
            "loss=function of (model, batch) if the call needs more than these"
        ) from error


def _joined(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The batch; of preferences, the chosen rows and then the rejected ones."""
    chosen_part, rejected_part = (
        {name.removeprefix(prefix): v for name, v in batch.items() if name.startswith(prefix)}
        for prefix in _PAIR
    )
    if not chosen_part:
        return dict(batch)
    if chosen_part.keys() != rejected_part.keys():
        raise PellucidError(
            f"chosen rows have {', '.join(chosen_part)} and rejected ones "
            f"{', '.join(rejected_part) or 'none'}: pass the same arguments of both"
        )
    return {name: _stacked(chosen_part[name], rejected_part[name], name) for name in chosen_part}


def _stacked(chosen_part: Tensor, rejected_part: Tensor, name: str) -> Tensor:
    width = max(chosen_part.shape[1], rejected_part.shape[1])
    fill = -100 if name == "labels" else 0
    return torch.cat(
        [F.pad(t, (0, width - t.shape[1]), value=fill) for t in (chosen_part, rejected_part)]
    )


def _without_optimiser(model: nn.Module, optimizer: Any) -> list[Finding]:
    """A finding if the optimiser does not hold all parameters that are trained."""
    ids = parameter_ids(optimizer)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    names = [name for name, parameter in trained if id(parameter) not in ids]
    place, total = ", ".join(names[:4]), len(trained)
    return [describe("OPT001/watch", n=len(names), total=total, place=place)] if names else []
