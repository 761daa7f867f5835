"""The processes that train one model together, as everything else sees them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from torch import Tensor, nn

Arguments = ParamSpec("Arguments")
#: What JSON can hold: it travels from rank to rank.
Message = TypeVar("Message")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a model can be divided among ranks.

    Attributes:
        groups: Modules that are gathered each as a whole; the rest is one more group.
        methods: Names of the model's methods that compute, besides `forward`.
        products: Linear layers by path whose products several ranks can share: each has some
            "outputs" of a layer, or some "inputs".
        precision: Of the products of matrices.
    """

    groups: Sequence[nn.Module]
    methods: Sequence[str]
    products: Mapping[str, Literal["outputs", "inputs"]]
    precision: Literal["float32", "bfloat16"]


class World:
    """One process alone: each method gives what it takes.

    `Ranks` has the same methods for many processes. Every rank has to call a method that speaks to
    the others, and in the same order.
    """

    rank = 0
    size = 1
    #: How many ranks, or groups of ranks, read different rows; and the number of this one's.
    n_data = 1
    data_rank = 0
    #: Whether each rank holds a share of the weights only.
    is_sharded = False
    #: The seconds that this rank has spent in collectives so far; None if the host does not wait.
    waiting_seconds: float | None = None
    #: Seconds in which a repeated signal counts as the first one.
    settle_seconds = 0.0

    @contextmanager
    def summing_early(self, parameters: Iterable[nn.Parameter], n_passes: int) -> Generator[None]:
        """Within it, gradients begin to be summed once they are complete; `sum_gradients` follows.

        Args:
            parameters: as for `sum_gradients`.
            n_passes: how many backward passes add to a gradient.
        """
        yield

    def sum_gradients(self, parameters: Iterable[nn.Parameter], numbers: Sequence[Tensor]) -> None:
        """Sum the gradients, and the scalars `numbers`, over all ranks, in place."""

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks, in place."""

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Average tensors over all ranks, in place."""

    def shard(self, model: nn.Module, division: Division) -> None:
        """Leave this rank its share of the weights, if weights are sharded.

        Args:
            model: the model on its device, with the same weights on all ranks. Parameters on the
                meta device get memory without values.
            division: how it can be divided.
        """

    def norm(self, gradients: Sequence[Tensor]) -> Tensor | None:
        """The norm of all gradients if no rank has them all; else None."""

    def local(self, tensor: Tensor) -> Tensor:
        """What this rank holds of a tensor."""
        return tensor

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """This rank's share of what `function` gives for whole matrices; each has one owner.

        Args:
            function: of a batch of whole matrices.
            matrices: (batch, rows, columns), the rows that this rank holds.
            n_rows: the rows of a whole matrix.
        """
        return function(matrices)

    def full(self, tensor: Tensor) -> Tensor:
        """The whole tensor; a rank may hold only a share."""
        return tensor

    def place(self, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The shape of a whole tensor and where this rank's share begins.

        None if another rank has the same share and saves it.
        """
        return tuple(tensor.shape), (0,) * tensor.ndim

    def act_together(
        self,
        lead: Callable[[Callable[[Path], list[Message]]], Result],
        act: Callable[[Path], Message],
    ) -> Result:
        """What `lead` gives on rank 0; within it, all ranks can act on a folder.

        Args:
            lead: is called on rank 0 with a function, which has every rank call `act` with a
                folder, and gives their answers in the order of ranks.
            act: what each rank does.
        """
        return lead(lambda folder: [act(folder)])

    def region(self, tensor: Tensor) -> tuple[slice, ...]:
        """Where in the whole tensor the numbers are that this rank holds."""
        return (slice(None),) * tensor.ndim

    def as_share(self, local: Tensor, sharded: Tensor) -> Tensor:
        """A tensor divided among the ranks as `sharded` is; this rank has `local` of it."""
        return local

    def set_values(self, tensor: Tensor, fill: Callable[[Tensor], object]) -> None:
        """Let `fill` write the whole tensor; keep what this rank holds of it."""
        fill(tensor)

    @contextmanager
    def with_all_weights(self, model: nn.Module) -> Generator[None]:
        """Within it, this rank holds all weights of a model."""
        yield

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """The largest of each number over all ranks."""
        return numbers

    def table(self, row: Sequence[float]) -> list[list[float]]:
        """The numbers of each rank, in their order: one small collective."""
        return [list(row)]

    def gather(self, value: Message) -> list[Message]:
        """The value of each rank, in their order."""
        return [value]

    def led(self, call: Callable[Arguments, Message]) -> Callable[Arguments, Message]:
        """The function as rank 0 calls it: all ranks get its result, or raise its refusal."""
        return call

    def announce(self, value: object) -> None:
        """Tell the others, who wait in `receive`, that rank 0 has prepared something."""

    def receive(self) -> object:
        """Wait for what rank 0 announces.

        Raises:
            PellucidError: rank 0 refused instead.
        """
        raise AssertionError("one process alone leads")

    def start_together(self) -> None:
        """From here on every rank calls the same methods: functions that are `led` run once."""

    def agree(self, name: str, measure: Callable[[], str]) -> None:
        """Refuse ranks on which `measure()` differs; one process alone does not call it."""

    @contextmanager
    def losing(self, describe: Callable[[], str]) -> Generator[None]:
        """Within it, the message of a lost rank ends with `describe()`."""
        yield
