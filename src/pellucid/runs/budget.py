"""Whether what is about to be done fits into the memory that is free: asked before it is begun.

Comes in: an estimate, a device. Goes out: nothing, a warning, or a refusal with the figures and
what to make smaller. It does not know how anything is built.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import torch

from pellucid import config
from pellucid.counting import (
    UNCERTAINTY,
    Conditions,
    MemoryEstimate,
    least_memory,
    parameter_count,
    peak_memory,
    weights_memory,
    with_vocabulary,
)
from pellucid.counting.peak import PROCESS_BYTES
from pellucid.display.numbers import size
from pellucid.errors import RunError
from pellucid.examples import StoredExamples
from pellucid.free_memory import Free, free_memory, resident_memory
from pellucid.runs.plan import find_device, find_precision
from pellucid.runs.ready import Data
from pellucid.runs.start import config_of

_log = logging.getLogger(__name__)

_DOES = "this training needs"


def check_memory(
    estimate: MemoryEstimate, does: str, *, device: str | torch.device = "cpu", force: bool = False
) -> None:
    """Refuse what does not fit even if the estimate is too high; warn where it may not fit.

    `does` is what needs the memory, as "this training does". With `force` nothing is refused.

    Raises:
        RunError: the figures, and what to make smaller.
    """
    free, needed = free_on(torch.device(device)), estimate.still_needed
    if free is None or needed * (1 + UNCERTAINTY) <= free.n_bytes:
        return
    figures = (
        f"{does} about {size(needed)} of memory more, and {free.of} has {size(free.n_bytes)} free"
    )
    largest = estimate.largest
    advice = f"most of it, {size(largest.n_bytes)}, is {largest.part}: lower {largest.lower}"
    if needed * (1 - UNCERTAINTY) > free.n_bytes and not force:
        raise RunError(f"{figures}; {advice}; --force (force=True) goes on all the same")
    _log.warning("%s: it may not fit; %s", figures, advice)


def free_on(device: torch.device) -> Free | None:
    """What a device has free; None where it does not say."""
    if device.type == "cuda":
        # what torch holds of the device and does not use is as good as free
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return Free(torch.cuda.mem_get_info(device)[0] + unused, torch.cuda.get_device_name(device))
    if device.type == "mps":
        most, held = torch.mps.recommended_max_memory(), torch.mps.current_allocated_memory()
        return Free(most - held, "the GPU")
    return free_memory() if device.type == "cpu" else None


def check_beginning(run: config.Run, *, watched: bool, force: bool) -> int:
    """Before anything is read: refuse what cannot fit, whatever the data are.

    Returns the bytes of the process as it is now, which `check_training` counts on from: what is
    freed of reading the data is used again.

    Raises:
        ConfigError: this machine does not have the device.
        RunError: as `check_memory`.
    """
    device = find_device(run.training.device)
    # first alone: where there are billions of layers, the other terms take long to count
    check_memory(weights_memory(run.model), _DOES, device=device, force=force)
    process = resident_memory() or PROCESS_BYTES
    estimate = least_memory(run, _conditions(run, device, process, None, watched))
    check_memory(estimate, _DOES, device=device, force=force)
    return process


def check_training(
    run: config.Run, data: Data, *, process: int, watched: bool, force: bool
) -> MemoryEstimate:
    """What a training on these data will need, before anything is built.

    Raises:
        RunError: as `check_memory`.
    """
    device = find_device(run.training.device)
    estimate = peak_memory(run, _conditions(run, device, process, _longest(run, data), watched))
    check_memory(estimate, _DOES, device=device, force=force)
    return estimate


def _conditions(
    run: config.Run, device: torch.device, process: int, longest: int | None, watched: bool
) -> Conditions:
    """What this machine and the data add to a config."""
    return Conditions(
        precision=find_precision(run.training.precision, device),
        kernel=None if device.type == "cpu" else "fused",
        longest=longest,
        asked=_asked(run),
        process=process,
        keeps_freed=os.environ.get("THP_MEM_ALLOC_ENABLE") == "1",  # as `cli.machine` has it
        watched=watched,
    )


def _longest(run: config.Run, data: Data) -> int | None:
    """The longest row that is read as one; None where rows are whole contexts."""
    objective = run.objective
    packed = isinstance(objective, config.SupervisedFineTuning) and objective.packed
    if packed or not isinstance(data, StoredExamples):
        return None
    written = objective.max_new_tokens if isinstance(objective, config.PolicyGradient) else 0
    lengths = (column.lengths for column in data.train.columns.values())
    return max(int(each.max(initial=1)) for each in lengths) + written


def _asked(run: config.Run) -> int:
    """The parameters of the models that are asked and not trained."""
    match run.objective:
        case config.Distillation(teacher=teacher):
            return parameter_count(config_of(Path(teacher)).model) if teacher else 0
        case config.DirectPreference() | config.PolicyGradient():
            lora = isinstance(run.trained, config.LoRA)
            return 0 if lora else parameter_count(with_vocabulary(run).model)
        case _:
            return 0
