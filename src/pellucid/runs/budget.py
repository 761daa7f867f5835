"""Whether what is about to be done fits into the memory that is free: asked before it is begun.

Comes in: an estimate, a device. Goes out: nothing, a warning, or a refusal with the figures and what
to make smaller. It does not know what is estimated.
"""

from __future__ import annotations

import logging
import os

import torch

from pellucid import config
from pellucid.counting import (
    UNCERTAINTY,
    Conditions,
    MemoryEstimate,
    choose_kernel,
    least_memory,
    peak_memory,
)
from pellucid.counting.peak import PROCESS_BYTES
from pellucid.display.numbers import size
from pellucid.errors import RunError
from pellucid.free_memory import Free, free_memory, resident_memory
from pellucid.runs.plan import find_device, find_precision

_log = logging.getLogger(__name__)


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


def conditions_for(
    run: config.Run, *, longest: int | None = None, asked: int = 0, watched: bool = True
) -> Conditions:
    """What this machine adds to a config."""
    device = find_device(run.training.device)
    precision = find_precision(run.training.precision, device)
    on_cpu = device.type == "cpu"
    return Conditions(
        precision=precision,
        kernel=None if on_cpu else "fused",
        longest=longest,
        asked=asked,
        process=resident_memory() or PROCESS_BYTES,
        keeps_freed=keeps_freed(),
        watched=watched,
    )


def keeps_freed() -> bool:
    """Whether the allocator keeps what is freed: see `cli.machine`."""
    return os.environ.get("THP_MEM_ALLOC_ENABLE") == "1"


def check_training(
    run: config.Run, conditions: Conditions, *, known: bool, force: bool
) -> MemoryEstimate:
    """What a training will need; `known` are vocabulary and data, or it needs that at least.

    Raises:
        RunError: as `check_memory`.
    """
    estimate = (peak_memory if known else least_memory)(run, conditions)
    check_memory(estimate, "this training needs", device=run.training.device, force=force)
    return estimate
