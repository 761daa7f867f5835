"""Whether a training fits into free memory: checked before it starts."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from pellucid import config
from pellucid.counting import (
    Conditions,
    Layout,
    MemoryEstimate,
    least_memory,
    least_model,
    parameter_count,
    peak_memory,
    weights_memory,
    with_vocabulary,
)
from pellucid.counting.conditions import PROCESS_BYTES
from pellucid.counting.temporaries import token_bytes
from pellucid.data import PreparedData
from pellucid.free_memory import resident_memory
from pellucid.saved_runs.initial_weights import config_of
from pellucid.saved_runs.machine import find_device, find_precision
from pellucid.saved_runs.memory_check import check_memory

_ACTIVITY = "this training needs"
_ANSWERS = ("chosen", "rejected")


def check_beginning(run: config.Run, *, watched: bool) -> int:
    """Refuse a run that cannot fit into memory with any data, before reading the data.

    Args:
        run: the config.
        watched: whether watchers look into the run.

    Returns:
        The bytes that the process has now. `check_training` adds to them: the process uses the
        memory again that reading the data frees.

    Raises:
        ConfigError: this machine does not have the device.
        RunError: as `check_memory`.
    """
    device = find_device(run.training.device)
    # the weights first: with billions of layers, the other terms take long to count
    check_memory(weights_memory(run.model), _ACTIVITY, device=device)
    process = resident_memory() or PROCESS_BYTES
    estimate = least_memory(run, _conditions(run, device, process, None, watched))
    check_memory(estimate, _ACTIVITY, device=device)
    return process


def check_training(
    run: config.Run, data: PreparedData, *, process: int, watched: bool
) -> MemoryEstimate:
    """Estimate the memory of a training on these data, before building the model.

    Args:
        run: the config.
        data: the prepared data.
        process: the bytes that `check_beginning` returned.
        watched: whether watchers look into the run.

    Raises:
        RunError: as `check_memory`.
    """
    device = find_device(run.training.device)
    estimate = peak_memory(run, _conditions(run, device, process, _longest(run, data), watched))
    check_memory(estimate, _ACTIVITY, device=device)
    return estimate


def estimate_training(run: config.Run) -> MemoryEstimate:
    """The memory that a training is expected to need at its peak, whatever this process holds.

    Rows of examples count as whole contexts.

    Args:
        run: the config, with the size of its vocabulary.
    """
    device = find_device(run.training.device)
    return peak_memory(run, _conditions(run, device, PROCESS_BYTES, None, watched=True))


def _conditions(
    run: config.Run,
    device: torch.device,
    process: int,
    longest: tuple[int, int] | None,
    watched: bool,
) -> Conditions:
    """The conditions that this machine and the data add to a config."""
    precision = find_precision(run.training.precision, device)
    reference = _reference_model(run)
    copied = not isinstance(run.trained, config.LoRA) or isinstance(
        run.objective, config.Distillation
    )
    return Conditions(
        precision=precision,
        kernel=None if device.type == "cpu" else "flash" if device.type == "cuda" else "fused",
        longest=longest,
        frozen_parameters=parameter_count(reference) if reference is not None and copied else 0,
        frozen_token_bytes=0 if reference is None else token_bytes(reference, precision),
        process=process,
        keeps_freed=os.environ.get("THP_MEM_ALLOC_ENABLE") == "1",  # as `keep_freed_memory` sets it
        watched=watched,
        layout=Layout(recompute=run.training.recompute),
        on_gpu=device.type == "cuda",
    )


def _longest(run: config.Run, data: PreparedData) -> tuple[int, int] | None:
    """The longest rows that encoder and decoder read; None if rows are whole contexts."""
    objective = run.objective
    packed = isinstance(objective, config.SFT) and objective.packed
    if packed or data.is_text:
        return None
    train, longest = data.train, data.train.longest_row
    lengths = {name: column.lengths for name, column in train.columns.items()}
    match objective:
        case config.Seq2Seq():
            return int(lengths["source"].max()), int(lengths["target"].max())
        case config.DPO():  # the two answers are not padded to one length
            rows = [int((lengths["prompt"] + lengths[name]).max()) for name in _ANSWERS]
            mean = sum(rows) // len(rows)
            return mean, mean
        case config.PolicyGradient(max_new_tokens=new_tokens):
            return longest + new_tokens, longest + new_tokens
        case _:
            return longest, longest


def _reference_model(run: config.Run) -> config.Transformer | None:
    """The frozen model of a run: a teacher, or the first state of the run."""
    match run.objective:
        case config.Distillation(teacher=teacher):
            if not teacher or not Path(teacher).exists():  # its task gives the reason
                return None
            return least_model(config_of(Path(teacher)).model)
        case config.DPO() | config.PolicyGradient():
            return least_model(with_vocabulary(run).model)
        case _:
            return None
