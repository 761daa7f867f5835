"""Where the numbers of a training lie: on one device, or over several.

Data ranks read different rows and have the same weights. Sharding gives each of them a part of the
weights, gradients and moments; a group of layers is gathered just before its use. Tensor ranks
share the products of each layer, and read the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config import Transformer
from pellucid.counting.activations import Precision, Recompute, bytes_of
from pellucid.counting.layers import attention_symbols, feed_forward_symbols, stacks
from pellucid.counting.parameters import parameter_count
from pellucid.counting.trained import matrix_shapes
from pellucid.errors import ConfigError

#: Which devices share weights, gradients and moments.
Shard = Literal["none", "full", "node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the work of an update is divided.

    Attributes:
        devices: All of them.
        node: The devices of a machine.
        shard: "none" leaves all weights on every data rank; "full" cuts them over all data ranks;
            "node" cuts them over the data ranks of a node, and each node has them all.
        tensor: How many devices share each product.
        offload: Whether weights, gradients and moments lie in the memory of the processor.
        gather: The type of gathered weights.
        reduce: The type in which gradients are summed.
        recompute: What the backward pass computes again: nothing; all but products and attention;
            or every block from its input.
    """

    devices: int = 1
    node: int = 8
    shard: Shard = "none"
    tensor: int = 1
    offload: bool = False
    gather: Precision = "float32"
    reduce: Precision = "float32"
    recompute: Recompute = "none"

    def __post_init__(self) -> None:
        for name in ("devices", "node", "tensor"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, was {getattr(self, name)}")
        if self.devices % self.tensor:
            raise ConfigError(
                f"parallel.tensor must divide the number of devices, was {self.tensor} of "
                f"{self.devices}: take one of {_divisors(self.devices)}"
            )
        if self.devices > self.node and self.devices % self.node:
            raise ConfigError(
                f"{self.devices} devices do not fill nodes of {self.node}: take a multiple of "
                f"{self.node}, or a kind of your own with another `node` (docs/plan.md)"
            )
        if self.tensor > self.node:
            raise ConfigError(
                f"parallel.tensor must be at most the devices of a node, was {self.tensor} of "
                f"{self.node}"
            )

    @property
    def data(self) -> int:
        """How many ranks read different rows."""
        return self.devices // self.tensor

    @property
    def shards(self) -> int:
        """Over how many data ranks weights are cut."""
        match self.shard:
            case "none":
                return 1
            case "full":
                return self.data
            case "node":
                return min(self.data, max(1, self.node // self.tensor))

    @property
    def parts(self) -> int:
        """One over the share of the weights that a device holds."""
        return self.shards * self.tensor


#: What weights in bfloat16, and copies in it, are of.
BLOCK_MATRICES = "matrices of the blocks"
#: One device, and nothing computed again.
ONE_DEVICE = Layout()


@dataclass(frozen=True, slots=True)
class Groups:
    """The weights that are gathered together: a block, all blocks, and the rest (the root).

    Attributes:
        block: parameters of a block, the mean of all.
        blocks: parameters of all blocks.
        root: parameters of the rest.
    """

    block: int
    blocks: int
    root: int


def weight_groups(model: Transformer, tensor: int = 1) -> Groups:
    """The weights of an average block and of the root, of one of `tensor` ranks.

    The root has the embedding, the head, the norms and everything else outside of matrices in
    blocks.
    """
    blocks = sum(n * rows * columns for (rows, columns), n in matrix_shapes(model).items())
    n_layers = sum(stack.n_layers for stack in model.stacks)
    root = parameter_count(model) - blocks
    return Groups(blocks // n_layers // tensor, blocks // tensor, root // tensor)


def gathered_bytes(model: Transformer, layout: Layout) -> tuple[int, str]:
    """The gathered weights of the root and two blocks, and the gradients of a block.

    The next block is gathered while one is computed. Gradients of a block are whole until they
    are summed: in the type of the weights, and a copy in the type of the sum.
    """
    if layout.shards == 1:
        return 0, "nothing: every rank has all of its weights"
    groups, width = weight_groups(model, layout.tensor), bytes_of(layout.gather)
    n_bytes = width * (groups.root + 3 * groups.block) + bytes_of(layout.reduce) * groups.block
    return n_bytes, (
        f"{width} bytes x (root + 2 blocks + gradients of a block) + "
        f"{bytes_of(layout.reduce)} bytes x their sum"
    )


def cast_bytes(model: Transformer, layout: Layout) -> tuple[int, str]:
    """The copies of the matrices in bfloat16 that autocast keeps until the backward pass."""
    return 2 * weight_groups(model, layout.tensor).blocks, f"2 bytes x {BLOCK_MATRICES}"


def check_tensor(model: Transformer, tensor: int) -> None:
    """Refuse a number of tensor ranks that the heads or the feed-forward cannot be divided by.

    Raises:
        ConfigError: names the first part, and what divides it.
    """
    for named_stack in stacks(model):
        for layer in named_stack.stack.layer_counts:
            sizes = attention_symbols(layer.attention) | feed_forward_symbols(layer.feed_forward)
            for symbol, name in (("h", "n_heads"), ("h_kv", "n_kv_heads"), ("d_ff", "d_ff")):
                if sizes[symbol] % tensor:
                    raise ConfigError(
                        f"parallel.tensor must divide {name}, was {tensor} of {sizes[symbol]}: "
                        f"take one of {_divisors(sizes[symbol])}"
                    )


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, min(number, 64) + 1) if number % n == 0)
