"""Where the numbers of a run lie when many processes train it; never which numbers they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, Positive
from pellucid.config.training import GrowingBatch, Training
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism(Checked):
    """How the ranks of one training share it; torchrun starts them.

    Attributes:
        shard: whether each rank holds all weights ("none"); or its share of weights, gradients and
            moments ("full"); or each machine holds all, and its ranks a share each ("node").
        tensor: how many ranks read the same rows and share the products of every layer.
        offload: whether shares of weights and the optimiser's memory lie in the memory of the
            processor; needs `shard`.
        gather: the type in which sharded weights are gathered; "auto" is that of products.
        reduce: the type in which gradients are summed.
        timeout_seconds: how long a rank waits for the others before it gives up.
    """

    shard: Literal["none", "full", "node"] = "none"
    tensor: Count = 1
    offload: bool = False
    gather: Literal["auto", "float32", "bfloat16"] = "auto"
    reduce: Literal["float32", "bfloat16"] = "float32"
    timeout_seconds: Positive = 600.0

    def _check(self) -> None:
        if self.shard == "none" and self.offload:
            raise ConfigError(
                'offload moves the shares of weights to the processor, and shard is "none": every '
                'rank has all weights; set shard to "full" or "node", or offload to false'
            )

    def count_data_ranks(self, ranks: int) -> int:
        """How many of the ranks, or groups of `tensor` ranks, read different rows.

        Args:
            ranks: how many processes there are; one alone shares nothing.

        Raises:
            ConfigError: `tensor` does not divide them.
        """
        if ranks == 1:
            return 1
        if ranks % self.tensor:
            raise ConfigError(
                f"parallel.tensor: {self.tensor} ranks that share products do not divide {ranks} "
                f"ranks: {_nearest(ranks, self.tensor)}"
            )
        return ranks // self.tensor


def count_parts(training: Training, ranks: int) -> int:
    """The number of equal parts of a batch: `accumulation`, or one for each rank.

    Args:
        training: the batch, at each stage of its growth.
        ranks: how many ranks read different rows: `Parallelism.count_data_ranks`.

    Raises:
        ConfigError: names a size that does not divide, and the nearest sizes that do.
    """
    parts = max(training.accumulation, ranks)
    if parts % ranks:
        raise ConfigError(
            f"training.accumulation: {parts} parts of a batch cannot be shared by {ranks} ranks "
            f"alike: {_nearest(parts, ranks)}"
        )
    sizes = {"training.batch_size": training.batch_size}
    if isinstance(training.growth, GrowingBatch):  # the first size doubles: the others divide too
        sizes["training.growth.first"] = training.growth.first
    for name, size in sizes.items():
        if size % parts:
            shared = f" that {ranks} ranks share" if ranks > 1 else ""
            raise ConfigError(
                f"{name}: {size} rows cannot be cut into {parts} equal parts{shared}: "
                f"{_nearest(size, parts)}"
            )
    return parts


def _nearest(size: int, divisor: int) -> str:
    smaller, larger = size // divisor * divisor, -(-size // divisor) * divisor
    if not smaller:
        return f"the nearest size that divides is {larger}"
    return f"the nearest sizes that divide are {smaller} and {larger}"
