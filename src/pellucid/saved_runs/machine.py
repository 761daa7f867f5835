"""The device and precision that "auto" means, and whether a plan fits this machine."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal

import torch

from pellucid import config, native
from pellucid.errors import ConfigError, RunError
from pellucid.reader import short
from pellucid.saved_runs.seal import Change
from pellucid.training import Precision
from pellucid.typed import multiplies_bfloat16


def find_device(name: str) -> torch.device:
    """The device of this name; "auto" is the first of CUDA and CPU that the machine has.

    Raises:
        ConfigError: torch does not know the name, the machine does not have the device, or it is
            Apple's mps.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] == "mps":
        raise ConfigError(
            f"training.device: pellucid does not compute on Apple's {short(name)}: nobody has run "
            "its tests there; use cpu, which uses all of the processor's cores"
        )
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()  # "meta" has a name but no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(
            f"training.device: this machine has no {short(name)} ({first[:200]}); use auto or cpu"
        ) from None
    return device


def find_precision(name: Literal["auto", "float32", "bfloat16"], device: torch.device) -> Precision:
    """The precision of this name; "auto" is bfloat16 if the processor multiplies it natively."""
    if name != "auto":
        return name
    return "bfloat16" if multiplies_bfloat16(device) else "float32"


def device_name(device: torch.device) -> str:
    """The GPU's name, or the CPU's vector instructions and its model: the arithmetic depends on it.

    Libraries of matrix products choose their kernels by the model, too: two processors with the
    same vector instructions can round differently.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    instructions = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return ", ".join((instructions, *_processor()))


def _processor() -> tuple[str, ...]:
    """Vendor, family, model and stepping as Linux lists them; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return tuple(filter(None, (platform.processor(),)))
    facts = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    names = ("vendor_id", "cpu family", "model", "stepping")
    arm = ("CPU implementer", "CPU variant", "CPU part", "CPU revision")
    known = (" ".join(facts[name] for name in kind if name in facts) for kind in (names, arm))
    return tuple(filter(None, known))


def has_native(device: torch.device) -> bool:
    """Whether our C code runs on the device: on a CPU, if this machine has a C compiler."""
    return device.type == "cpu" and native.errors() is not None


def machine_changes(plan: config.Plan) -> tuple[Change, ...]:
    """The keys of a plan that keep this machine from computing the same bits.

    Raises:
        RunError: the device is not there.
    """
    try:
        device = find_device(plan.device)
    except ConfigError as error:
        raise RunError(f"the run was trained on {plan.device}: {error}") from None
    this_device = device_name(device)
    # 0.1 saved the instructions alone
    is_named_so = this_device.startswith(f"{plan.device_name}, ")
    facts: dict[str, str | bool] = {
        "device_name": plan.device_name if is_named_so else this_device,
        "torch_version": torch.__version__,
    }
    if plan.native:  # a run without C code continues everywhere
        facts["native"] = has_native(device)
    return tuple(
        Change(f"plan.{name}", repr(getattr(plan, name)), repr(current))
        for name, current in facts.items()
        if getattr(plan, name) != current
    )
