"""What this machine makes of the choices that said "auto", and whether another plan fits it.

Comes in: a config, a machine. Goes out: a `Plan`, or a refusal by name. It does not know models.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from typing import Literal, assert_never

import torch

from pellucid import config, native
from pellucid.errors import ConfigError, RunError
from pellucid.reader import short
from pellucid.saved_runs.seal import Change
from pellucid.training import Precision, mean_rows
from pellucid.typed import multiplies_bfloat16


def find_device(wanted: str) -> torch.device:
    """The device that `wanted` names; "auto" is the first of CUDA, MPS and CPU that is there.

    Raises:
        ConfigError: torch does not know the name, or the machine does not have the device.
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.ones(1, device=device).item()  # "meta" has a name but no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(
            f"training.device: this machine has no {short(wanted)} ({first[:200]}); use auto or cpu"
        ) from None
    return device


def find_precision(
    wanted: Literal["auto", "float32", "bfloat16"], device: torch.device
) -> Precision:
    """bfloat16 where the processor multiplies it natively, else float32."""
    if wanted != "auto":
        return wanted
    return "bfloat16" if multiplies_bfloat16(device) else "float32"


def device_name(device: torch.device) -> str:
    """What the arithmetic depends on: the GPU's name, or the processor's vector instructions."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def has_native(device: torch.device) -> bool:
    """Whether what is written in C runs here: on a processor, where a compiler was found."""
    return device.type == "cpu" and native.errors() is not None


def count_steps(
    settings: config.Training,
    *,
    rows_per_epoch: int,
    tokens_per_row: float,
    seconds_per_step: Callable[[], float],
) -> int:
    """How many updates the budget pays for; `seconds_per_step` is asked only for minutes.

    It is that of a whole batch; one of fewer rows is taken to be shorter in proportion.
    """
    rows = mean_rows(settings)
    match settings.budget:
        case config.Steps(count=count):
            return count
        case config.Tokens(count=count):
            return math.ceil(count / (rows * tokens_per_row))
        case config.Epochs(count=count):
            return max(1, round(count * rows_per_epoch / rows))
        case config.Minutes(count=count):
            # updates are timed; evaluations, samples and checkpoints take their share
            share = rows / settings.batch_size
            return max(1, int(count * 60 * 0.85 / (seconds_per_step() * share)))
        case _:
            assert_never(settings.budget)


def expect_seconds(
    settings: config.Training,
    plan: config.Plan,
    *,
    update: float,
    reading: float,
    step_tokens: float,
    held_out: int,
) -> float:
    """How long a run will take where a whole update takes `update` seconds: evaluations included.

    Reading the `step_tokens` of a batch where nothing is learnt takes `reading`; of `held_out`
    tokens an evaluation reads so many at most. What it writes, checkpoints and samples are left
    out.
    """
    updates = plan.total_steps * mean_rows(settings) / settings.batch_size
    evaluations = 1 + math.ceil(plan.total_steps / settings.evaluate_every)
    read = min(settings.evaluate_tokens, held_out) / step_tokens
    return update * updates + reading * evaluations * read


def machine_changes(plan: config.Plan) -> tuple[Change, ...]:
    """By name, what keeps this machine from computing bit for bit as the plan says.

    Raises:
        RunError: the device is not there.
    """
    try:
        device = find_device(plan.device)
    except ConfigError as error:
        raise RunError(f"the run was trained on {plan.device}: {error}") from None
    facts: dict[str, str | bool] = {
        "device_name": device_name(device),
        "torch_version": torch.__version__,
    }
    if plan.native:  # without it is possible everywhere
        facts["native"] = has_native(device)
    return tuple(
        Change(f"plan.{name}", repr(getattr(plan, name)), repr(current))
        for name, current in facts.items()
        if getattr(plan, name) != current
    )
