"""Energy is read from the counters of the machine, and from nowhere else."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch

from pellucid.training.energy import EnergyMeter

CPU = torch.device("cpu")


def zone(folder: Path, name: str, *, energy: int, range_: int = 1_000_000_000) -> Path:
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n", encoding="utf-8")
    (folder / "max_energy_range_uj").write_text(f"{range_}\n", encoding="utf-8")
    (folder / "energy_uj").write_text(f"{energy}\n", encoding="utf-8")
    return folder / "energy_uj"


def test_packages_and_memory_are_added_up_and_their_parts_are_not(tmp_path: Path) -> None:
    package = zone(tmp_path / "intel-rapl:0", "package-0", energy=5_000_000)
    core = zone(tmp_path / "intel-rapl:0:0", "core", energy=0)
    memory = zone(tmp_path / "intel-rapl:0:1", "dram", energy=100)
    meter = EnergyMeter(CPU, powercap=tmp_path)
    package.write_text("8000000", encoding="utf-8")
    core.write_text("2000000", encoding="utf-8")
    memory.write_text("500100", encoding="utf-8")
    assert meter.read() == pytest.approx(3.5)


def test_a_counter_that_starts_again_loses_nothing(tmp_path: Path) -> None:
    package = zone(tmp_path / "intel-rapl:0", "package-0", energy=9_000_000, range_=10_000_000)
    meter = EnergyMeter(CPU, powercap=tmp_path)
    for count in (1_000_000, 8_000_000, 500_000):
        package.write_text(str(count), encoding="utf-8")
        joules = meter.read()
    assert joules == pytest.approx(2 + 7 + 2.5)
    assert meter.read() == joules  # the counter stands still


def test_a_machine_without_counters_reports_none(tmp_path: Path) -> None:
    assert EnergyMeter(CPU, powercap=tmp_path / "missing").read() is None


def test_a_counter_that_is_damaged_or_goes_away_makes_no_number(tmp_path: Path) -> None:
    package = zone(tmp_path / "intel-rapl:0", "package-0", energy=1)
    meter = EnergyMeter(CPU, powercap=tmp_path)
    package.unlink()
    assert meter.read() is None
    package.write_text("not a number", encoding="utf-8")
    assert EnergyMeter(CPU, powercap=tmp_path).read() is None


def test_a_cuda_card_is_asked_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = types.ModuleType("pynvml")
    millijoules = iter([1000, 4500])
    card_names: list[str] = []

    def consumption(card: None) -> int:
        return next(millijoules)

    def properties(device: torch.device) -> types.SimpleNamespace:
        return types.SimpleNamespace(uuid="1234-5678")

    monkeypatch.setattr(nvml, "NVMLError", RuntimeError, raising=False)
    monkeypatch.setattr(nvml, "nvmlInit", lambda: None, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByUUID", card_names.append, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetTotalEnergyConsumption", consumption, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    meter = EnergyMeter(torch.device("cuda"), powercap=tmp_path)
    assert meter.read() == pytest.approx(3.5)
    assert card_names == ["GPU-1234-5678"]
