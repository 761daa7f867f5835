"""Whether work fits into free memory: checked before it starts."""

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
    estimate: MemoryEstimate,
    activity: str,
    *,
    device: str | torch.device = "cpu",
    force: bool = False,
) -> None:
    """Refuse work that does not fit even if the estimate is too high; warn if it may not fit.

    Args:
        estimate: the memory that the work needs.
        activity: the start of the message, such as "this training needs".
        device: where the work allocates it.
        force: refuse nothing; `forcing(True)` does the same.

    Raises:
        RunError: with the figures, and what to make smaller.
    """
    free, n_bytes = free_on(torch.device(device)), estimate.bytes_to_allocate
    if free is None or n_bytes * (1 + UNCERTAINTY) <= free.n_bytes:
        return
    figures = (
        f"{activity} about {size(n_bytes)} of memory more, and {free.limited_by} has "
        f"{size(free.n_bytes)} free"
    )
    largest = estimate.largest
    advice = f"most of it, {size(largest.n_bytes)}, is {largest.part}: lower {largest.lower}"
    if n_bytes * (1 - UNCERTAINTY) > free.n_bytes and not (force or is_forced()):
        raise RunError(f"{figures}; {advice}; --force (force=True) continues all the same")
    _log.warning("%s: it may not fit; %s", figures, advice)


def free_on(device: torch.device) -> Free | None:
    """The free memory of a device; None if it does not tell."""
    if device.type == "cuda":
        # memory that torch has reserved but does not use is as good as free
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return Free(torch.cuda.mem_get_info(device)[0] + unused, torch.cuda.get_device_name(device))
    if device.type == "mps":
        limit, allocated = torch.mps.recommended_max_memory(), torch.mps.current_allocated_memory()
        return Free(limit - allocated, "the GPU")
    return free_memory() if device.type == "cpu" else None


def check_opening(
    model: config.Transformer,
    *,
    device: str | torch.device = "cpu",
    bytes_per_weight: int = 4,
    force: bool = False,
) -> None:
    """Check the weights of a model, by default in float32, before it is built.

    Raises:
        RunError: they do not fit.
    """
    check_memory(
        weights_memory(model, bytes_per_weight), "this model needs", device=device, force=force
    )
