"""The kinds of device: their peaks, memory, links and prices, as a table or as a file."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import decode, did_you_mean
from pellucid.config.checks import Checked, Count, NotNegative, Positive
from pellucid.counting.activations import Precision
from pellucid.errors import ConfigError
from pellucid.reader import read_toml

_TABLE = Path(__file__).with_name("kinds.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Checked):
    """A kind of device, in FLOP/s, bytes and bytes per second.

    Attributes:
        bfloat16: Peak of matrix products in bfloat16, dense.
        float32: Peak of matrix products in float32.
        memory: Bytes of memory for a process.
        bandwidth: Between the device and its memory.
        link: From the device to others of its node, in one direction.
        network: From the device to other nodes, in one direction.
        node: The devices of a node.
        price: US dollars an hour.
        products: The share of the peak that large matrix products reach.
        attention: The share that attention over long texts reaches, with heads of 128.
        clock: The share of its clock at which it runs; less than 1 if its power is limited.
        launch: Seconds to start a kernel; a GPU computes meanwhile, a processor does not.
        gpu: Whether it is a GPU; else a process with one thread of a processor.
    """

    bfloat16: Positive
    float32: Positive
    memory: Positive
    bandwidth: Positive
    link: Positive
    network: Positive
    node: Count
    price: NotNegative = 0.0
    products: Positive
    attention: Positive
    clock: Positive = 1.0
    launch: NotNegative = 5e-6
    gpu: bool = True

    def _check(self) -> None:
        for name in ("products", "attention", "clock"):
            if getattr(self, name) > 1:
                raise ConfigError(f"{name} must be a share, at most 1, was {getattr(self, name)}")

    def peak(self, precision: Precision) -> float:
        """FLOP/s of matrix products."""
        return self.bfloat16 if precision == "bfloat16" else self.float32


@functools.cache
def kinds() -> dict[str, Kind]:
    """The kinds that pellucid knows, by name."""
    return {name: decode(Kind, table, name) for name, table in read_toml(_TABLE).items()}


def find_kind(name: str) -> Kind:
    """The kind with this name, or of this TOML file.

    Args:
        name: One of `kinds()`, or the path of a file that ends in .toml.

    Raises:
        ConfigError: there is no such kind, or the file does not describe one.
    """
    table_kinds = kinds()
    if name in table_kinds:
        return table_kinds[name]
    if not name.endswith(".toml"):
        raise ConfigError(
            f"--device-kind {name}: unknown kind{did_you_mean(name, table_kinds)}; there are "
            f"{', '.join(table_kinds)}; or name a TOML file of your own (docs/plan.md)"
        )
    table: dict[str, Any] = read_toml(name, refusal=ConfigError)
    base = table.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or base not in table_kinds:
            raise ConfigError(f"{name}: base must be one of {', '.join(table_kinds)}, was {base!r}")
        table = {**read_toml(_TABLE)[base], **table}
    return decode(Kind, table, name)
