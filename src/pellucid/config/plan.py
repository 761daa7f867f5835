"""The plan of a run: the values that this machine chose for each "auto" of the config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Checked):
    """Values that a resumed run reuses, and facts about the machine that it must find again.

    `attention` is the kernel that pellucid measured to be faster in training: "products" of
    matrices or torch's "fused" one. `native` says whether the C code ran. `orthogonal` is the type
    in which Muon orthogonalises. Plans written before these keys existed get their defaults.
    `growth_steps` is the length over which a batch grows if you changed the length of the run
    (default: `total_steps`).
    """

    total_steps: Count
    threads: Count
    device: str
    precision: Literal["float32", "bfloat16"]
    compile: bool
    device_name: str
    torch_version: str
    attention: Literal["fused", "products"] = "fused"
    native: bool = False
    orthogonal: Literal["float32", "bfloat16"] = "bfloat16"
    growth_steps: Count | None = None

    @property
    def grows_over(self) -> int:
        """The number of updates that `training.growth.until` is a share of."""
        return self.growth_steps or self.total_steps
