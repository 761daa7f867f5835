"""Many processes that train one model: what they tell each other, by torch's collectives."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.parallel.early_sums import GradientSums, buckets, copy_back
from pellucid.parallel.meeting import Meeting
from pellucid.parallel.world import Arguments, Message, Result, World

#: torch gives these functions no types.
_collective: Any = distributed
#: torch 2.13 has renamed it, and warns of the old name.
_all_gather: Any = getattr(distributed, "all_gather_single", _collective.all_gather_into_tensor)


@contextmanager
def connected(meeting: Meeting, settings: config.Parallelism) -> Generator[Meeting]:
    """A process group of all ranks; ends them together.

    Args:
        meeting: where they have met.
        settings: how long a rank waits for the others.
    """
    with meeting.ending_together():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        meeting.assemble()
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=_collective.PrefixStore(f"group-{meeting.groups}", meeting.store),
            rank=meeting.rank,
            world_size=meeting.size,
            timeout=timedelta(seconds=settings.timeout_seconds),
        )
        try:
            yield meeting
            _collective.barrier()
        finally:
            # a rank that leaves early wakes those that wait for it
            with suppress(RuntimeError):
                distributed.destroy_process_group()


class Ranks(World):
    """This process, and the others: see `World` for what each method means.

    Args:
        meeting: where they have met.
        settings: how they share the training.
    """

    settle_seconds = 30.0
    waiting_seconds = None if torch.cuda.is_available() else 0.0

    #: The ranks that read different rows, as torch's group; None for all.
    data_group: Any = None

    def __init__(self, meeting: Meeting, settings: config.Parallelism) -> None:
        self.rank = meeting.rank
        self.size = meeting.size
        self.n_data = settings.count_data_ranks(self.size)
        self.data_rank = self.rank // settings.tensor
        self._settings = settings
        self._meeting = meeting
        self._all_call = False
        self._announced = 0
        self._early: GradientSums | None = None

    @contextmanager
    def _waiting(self) -> Generator[None]:
        """Count the seconds of a collective; a GPU's host does not wait for it."""
        started = time.perf_counter()
        yield
        if self.waiting_seconds is not None:
            self.waiting_seconds += time.perf_counter() - started

    @contextmanager
    def summing_early(self, parameters: Iterable[nn.Parameter], n_passes: int) -> Generator[None]:
        """In buckets, the last layers first."""
        sums = self._sums(parameters)
        with sums.beginning_early(n_passes):
            yield
        self._early = sums

    def _sums(self, parameters: Iterable[nn.Parameter]) -> GradientSums:
        return GradientSums(
            [parameter for parameter in parameters if parameter.requires_grad],
            dtype=torch_type(self._settings.reduce),
            group=self.data_group,
            waiting=self._waiting,
            local=self.local,
        )

    def sum_gradients(self, parameters: Iterable[nn.Parameter], numbers: Sequence[Tensor]) -> None:
        """A parameter that any rank used has a gradient on all ranks."""
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        # an expert that no token of this rank chose has no gradient here, but maybe elsewhere
        used = torch.tensor([float(p.grad is not None) for p in trained])
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        sums, self._early = self._early or self._sums(trained), None
        sums.finish()
        if any(parameter.device.type != "cpu" for parameter in trained):
            # the host needs the answer, and would wait for a collective of the device
            used = torch.tensor(self.largest(*(int(is_used) for is_used in used)))
            self.sum_(numbers)
        else:
            self.sum_([*numbers, used])
        for parameter, count in zip(trained, used, strict=True):
            if not bool(count):
                parameter.grad = None

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """In buckets: one collective for many tensors."""
        for bucket in buckets(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in bucket])
            with self._waiting():
                _collective.all_reduce(flat, group=self.data_group)
            copy_back(flat, bucket)

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """The sum over the number of ranks."""
        self.sum_(tensors)
        for tensor in tensors:
            tensor.detach().div_(self.n_data)

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """Every rank has all matrices: it computes its own ones, and the results are gathered."""
        n_own, first = owned(len(matrices), self.rank, self.size)
        results = computed(function, matrices[first : first + n_own], n_own)
        all_results = matrices.new_empty(n_own * self.size, *matrices.shape[1:])
        with self._waiting():
            _all_gather(all_results, results)
        return all_results[: len(matrices)]

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """On the CPU: the host needs the answer."""
        tensor = torch.tensor(numbers, dtype=torch.int64)
        with self._waiting():
            _collective.all_reduce(tensor, distributed.ReduceOp.MAX)
        return tuple(int(number) for number in tensor)

    def table(self, row: Sequence[float]) -> list[list[float]]:
        """In float64, so that bytes stay exact."""
        table = torch.zeros(self.size, len(row), dtype=torch.float64)
        table[self.rank] = torch.tensor(row, dtype=torch.float64)
        _collective.all_reduce(table)
        return [[float(number) for number in numbers] for numbers in table]

    def gather(self, value: Message) -> list[Message]:
        """Of any value that Python can copy to another process."""
        values: list[Any] = [None] * self.size
        _collective.all_gather_object(values, value)
        return values

    def led(self, call: Callable[Arguments, Message]) -> Callable[Arguments, Message]:
        """Before `start_together`, rank 0 calls the function alone."""

        @functools.wraps(call)
        def lead(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Message:
            if not self._all_call:  # rank 0 prepares alone
                return call(*args, **kwargs)
            answer: list[Any] = [None, None]
            if self.rank == 0:
                try:
                    answer[0] = call(*args, **kwargs)
                except (PellucidError, OSError) as error:
                    answer[1] = error
            self._broadcast(answer)
            if answer[1] is not None:
                raise answer[1]
            return answer[0]

        return lead

    def act_together(
        self,
        lead: Callable[[Callable[[Path], list[Message]]], Result],
        act: Callable[[Path], Message],
    ) -> Result:
        """An error on any rank is raised on all of them."""

        def all_act(folder: Path) -> list[Message]:
            self._broadcast([folder, None])
            return self._gather_answers(act, folder)

        if self.rank:
            return self._follow(act)
        result: list[Any] = [None, None]
        try:
            result[1] = (True, lead(all_act))
        except (PellucidError, OSError) as error:
            result[1] = (False, error)
        self._broadcast(result)
        return _result_of(result[1])

    def _follow(self, act: Callable[[Path], Any]) -> Any:
        while True:
            message: list[Any] = [None, None]
            self._broadcast(message)
            folder, result = message
            if folder is None:
                return _result_of(result)
            with suppress(PellucidError, OSError):  # rank 0 ends what it leads, and says why
                self._gather_answers(act, folder)

    def _gather_answers(self, act: Callable[[Path], Message], folder: Path) -> list[Message]:
        answer: Any
        try:
            answer = (True, act(folder))
        except (PellucidError, OSError) as error:
            answer = (False, error)
        return [_result_of(answer) for answer in self.gather(answer)]

    def _broadcast(self, values: list[Any]) -> None:
        _collective.broadcast_object_list(values, src=0, device=torch.device("cpu"))

    def announce(self, value: object) -> None:
        """The others hear it in the same order."""
        self._announced += 1
        self._meeting.publish(self._key, value)

    def receive(self) -> object:
        """A refusal of rank 0 is raised here too."""
        self._announced += 1
        return self._meeting.wait(self._key)

    @property
    def _key(self) -> str:
        return f"announced/{self._meeting.groups}/{self._announced}"

    def start_together(self) -> None:
        """`led` tells the others from here on."""
        self._all_call = True

    def agree(self, name: str, measure: Callable[[], str]) -> None:
        """The message names the first rank that differs from rank 0."""
        values = self.gather(measure())
        odd = [rank for rank, other in enumerate(values) if other != values[0]]
        if odd:
            raise ConfigError(
                f"rank {odd[0]} of {self.size} has another {name} than rank 0 ({values[odd[0]]} "
                f"and {values[0]}): start all ranks with the same version and the same command"
            )

    @contextmanager
    def losing(self, describe: Callable[[], str]) -> Generator[None]:
        """The description is asked for when a rank is lost, not before."""
        with self._meeting.describing(describe):
            yield


def _result_of(answer: tuple[bool, Any]) -> Any:
    """The value of an answer; its error is raised."""
    is_value, value = answer
    if is_value:
        return value
    raise value


def owned(n_matrices: int, rank: int, size: int) -> tuple[int, int]:
    """How many matrices each rank owns at most, and the first one of a rank."""
    n_own = -(-n_matrices // size)
    return n_own, rank * n_own


def computed(function: Callable[[Tensor], Tensor], matrices: Tensor, n_own: int) -> Tensor:
    """`function` of the matrices of a rank; zeros if it has fewer than others."""
    results = matrices.new_zeros(n_own, *matrices.shape[1:])
    if len(matrices):
        results[: len(matrices)] = function(matrices)
    return results


def torch_type(name: Literal["float32", "bfloat16"]) -> torch.dtype:
    """torch's type of a name in a config."""
    return torch.bfloat16 if name == "bfloat16" else torch.float32
