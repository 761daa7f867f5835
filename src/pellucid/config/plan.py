"""The resolved plan of a run: what this machine made of the choices that said "auto"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What resume reuses (`total_steps` to `attention`) or must find again (the rest), by name.

    `attention` is the kernel that was measured to be faster while training, "products" of matrices
    or torch's "fused" one; `native` says that what is written in C was run in C. Runs that were
    begun before these could be chosen had neither. `orthogonal` is the type in which Muon
    orthogonalises, which was bfloat16 before it could be chosen. `growth_steps` is the length over
    which a batch grows, where the run was made longer or shorter; absent, it is `total_steps`.
    """

    total_steps: int
    threads: int
    device: str
    precision: Literal["float32", "bfloat16"]
    compile: bool
    device_name: str
    torch_version: str
    attention: Literal["fused", "products"] = "fused"
    native: bool = False
    orthogonal: Literal["float32", "bfloat16"] = "bfloat16"
    growth_steps: int | None = None

    def __post_init__(self) -> None:
        at_least("total_steps", self.total_steps, 1)
        at_least("threads", self.threads, 1)
        if self.growth_steps is not None:
            at_least("growth_steps", self.growth_steps, 1)

    @property
    def grows_over(self) -> int:
        """The updates of which `training.growth.until` is a share."""
        return self.growth_steps or self.total_steps
