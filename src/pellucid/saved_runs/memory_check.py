"""Whether a piece of work fits into free memory: checked before it starts."""

from __future__ import annotations

import logging

import torch

from pellucid import config
from pellucid.counting import UNCERTAINTY, MemoryEstimate, weights_memory
from pellucid.display.numbers import size
from pellucid.errors import RunError
from pellucid.free_memory import Free, free_memory, is_forced

_log = logging.getLogger(__name__)


def check_memory(
    estimate: MemoryEstimate, does: str, *, device: str | torch.device = "cpu", force: bool = False
) -> None:
    """Refuse what does not fit even if the estimate is too high; warn where it may not fit.

    `does` is what needs the memory, as "this training does". Nothing is refused with
    `force`, or within `forcing(True)`.

    Raises:
        RunError: the figures, and what to make smaller.
    """
    free, needed = free_on(torch.device(device)), estimate.bytes_to_allocate
    if free is None or needed * (1 + UNCERTAINTY) <= free.n_bytes:
        return
    figures = (
        f"{does} about {size(needed)} of memory more, and {free.limited_by} has "
        f"{size(free.n_bytes)} free"
    )
    largest = estimate.largest
    advice = f"most of it, {size(largest.n_bytes)}, is {largest.part}: lower {largest.lower}"
    if needed * (1 - UNCERTAINTY) > free.n_bytes and not (force or is_forced()):
        raise RunError(f"{figures}; {advice}; --force (force=True) goes on all the same")
    _log.warning("%s: it may not fit; %s", figures, advice)


def free_on(device: torch.device) -> Free | None:
    """What a device has free; None where it does not say."""
    if device.type == "cuda":
        # what torch holds of the device and does not use is as good as free
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return Free(torch.cuda.mem_get_info(device)[0] + unused, torch.cuda.get_device_name(device))
    if device.type == "mps":
        limit, held = torch.mps.recommended_max_memory(), torch.mps.current_allocated_memory()
        return Free(limit - held, "the GPU")
    return free_memory() if device.type == "cpu" else None


def check_opening(
    model: config.Transformer, *, device: str | torch.device = "cpu", force: bool = False
) -> None:
    """Of a model that is about to be opened, before anything is built: its weights as float32.

    Raises:
        RunError: they do not fit.
    """
    check_memory(weights_memory(model), "this model needs", device=device, force=force)
