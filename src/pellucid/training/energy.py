"""The energy that a machine used, where it counts it: RAPL for processors, NVML for CUDA."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

#: Where Linux has the counters of processors (and AMD's under the same name).
_POWERCAP = Path("/sys/class/powercap")
#: A package holds its cores; memory is counted apart. Other zones are parts of these.
_ZONES = ("package", "dram")


@dataclass(slots=True)
class _Counter:
    """A counter that starts again at 0 when it reaches `range_`.

    Attributes:
        read: the count now, in units of `joules`.
        joules: what one unit is.
        range_: where it starts again; None if it does not.
        last: the count at the last reading.
        total: in joules, since the counter was made.
    """

    read: Callable[[], int]
    joules: float
    range_: int | None
    last: int
    total: float = 0.0

    def update(self) -> None:
        count = self.read()
        used = count - self.last
        if used < 0 and self.range_ is not None:
            used += self.range_
        self.last, self.total = count, self.total + used * self.joules


class EnergyMeter:
    """Adds up what the counters say from its making on. It counts all that the machine does.

    Args:
        device: the training's device.
        powercap: the folder of the processors' counters.
    """

    def __init__(self, device: torch.device, *, powercap: Path = _POWERCAP) -> None:
        self._counters = _processor_counters(powercap)
        if device.type == "cuda":
            self._counters += _cuda_counters(device)

    def read(self) -> float | None:
        """The joules so far; None if the machine reports none.

        Call it often: a processor's counter may start again after some minutes of full load.
        """
        try:
            for counter in self._counters:
                counter.update()
        except (OSError, ValueError):  # a counter that can no longer be read makes no sum
            self._counters = []
        return sum(counter.total for counter in self._counters) if self._counters else None


def _processor_counters(powercap: Path) -> list[_Counter]:
    """One counter a package and a memory; empty if one of them may not be read."""
    counters: list[_Counter] = []
    try:
        for zone in sorted(powercap.glob("intel-rapl:*")):
            if (zone / "name").read_text("utf-8").startswith(_ZONES):
                file = zone / "energy_uj"
                range_ = _number(zone / "max_energy_range_uj")
                counters.append(_Counter(lambda f=file: _number(f), 1e-6, range_, _number(file)))
    except (OSError, ValueError):
        return []
    return counters


def _number(file: Path) -> int:
    return int(file.read_text("utf-8"))


def _cuda_counters(device: torch.device) -> list[_Counter]:
    """The counter of the device, if NVIDIA's `pynvml` is installed and the card has one."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or no driver: NVML raises errors of its own
        return []
    try:
        # torch's stubs do not know the type
        properties = cast("Callable[..., Any]", torch.cuda.get_device_properties)(device)
        card = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")

        def read() -> int:
            return int(nvml.nvmlDeviceGetTotalEnergyConsumption(card))

        return [_Counter(read, 1e-3, None, read())]
    except nvml.NVMLError:  # cards older than Volta have none
        return []
