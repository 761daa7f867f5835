"""Ranks that hold a share each: of the weights by torch's FSDP2, of each product by its DTensors.

A group of weights, such as a block, is gathered while it computes. Gradients are summed: the losses
of the ranks are shares of one mean already. With tensor ranks the outputs of a layer and the inputs
of the next one are divided; the results of the latter are summed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed import fsdp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.distributed.tensor import DTensor, parallel

from pellucid import config
from pellucid.parallel.meeting import Meeting
from pellucid.parallel.ranks import Ranks, computed, owned, torch_type
from pellucid.parallel.world import Division

#: torch gives these functions few types.
_fsdp: Any = fsdp
_collectives: Any = _fsdp_collectives
_collective: Any = distributed
_parallel: Any = parallel


class _Timed:
    """One of torch's collectives for shares of weights, with its time counted.

    Args:
        collective: torch's own.
        waiting: counts the time within it.
    """

    def __init__(
        self, collective: Any, waiting: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._collective = collective
        self._waiting = waiting
        self.allocate = collective.allocate

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._waiting():
            return self._collective(*args, **kwargs)


class ShardedRanks(Ranks):
    """Ranks that hold a share of the weights each.

    Args:
        meeting: where they have met.
        settings: how they share the training.
        node: how many ranks hold all weights together.
    """

    is_sharded = True
    _is_gathered = False

    def __init__(self, meeting: Meeting, settings: config.Parallelism, *, node: int) -> None:
        super().__init__(meeting, settings)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        n_shards = 1 if settings.shard == "none" else node // settings.tensor
        self._mesh: Any = init_device_mesh(
            device,
            (self.n_data // n_shards, n_shards, settings.tensor),
            mesh_dim_names=("copies", "shards", "products"),
        )
        self._shard_group = self._mesh.get_group("shards")
        self._n_shards = n_shards
        if settings.tensor > 1:
            shape = (self.n_data, settings.tensor)
            data: Any = init_device_mesh(device, shape, mesh_dim_names=("data", "products"))
            self.data_group = data.get_group("data")

    def shard(self, model: nn.Module, division: Division) -> None:
        """Keep this rank's share of the weights, and gather each group while it computes."""
        if self._settings.tensor > 1:
            styles = {"outputs": _parallel.ColwiseParallel, "inputs": _parallel.RowwiseParallel}
            plan = {name: styles[side]() for name, side in division.products.items()}
            # the weights are alike on all ranks: none is sent
            _parallel.parallelize_module(model, self._mesh["products"], plan, src_data_rank=None)
        if self._settings.shard != "none":
            self._shard_weights(model, division)
        else:
            self._fetch_memory(model)

    def _fetch_memory(self, model: nn.Module) -> None:
        """Give the shares on the meta device memory."""
        device = "cpu" if self._settings.offload else self._mesh.device_type

        def fetch(tensor: Tensor) -> Tensor:
            return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor

        cast("Any", model)._apply(fetch)

    def _shard_weights(self, model: nn.Module, division: Division) -> None:
        settings = self._settings
        gather = torch_type(division.precision if settings.gather == "auto" else settings.gather)
        reduce = torch_type(settings.reduce)
        axes = ("copies", "shards") if self._mesh.size(0) > 1 else "shards"
        options: dict[str, Any] = {"mesh": self._mesh[axes]}
        if settings.offload:
            pinned = self._mesh.device_type == "cuda"
            options["offload_policy"] = _fsdp.CPUOffloadPolicy(pin_memory=pinned)
        options["mp_policy"] = _fsdp.MixedPrecisionPolicy(
            param_dtype=None if gather == torch.float32 else gather,
            reduce_dtype=None if gather == reduce else reduce,
        )
        for group in division.groups:
            _fsdp.fully_shard(group, **options)
        # the loss reads the head's matrix after the model's last state
        _fsdp.fully_shard(model, reshard_after_forward=False, **options)
        for module in _sharded_modules(model):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            module.set_custom_all_gather(_Timed(_collectives.DefaultAllGather(), self._waiting))
            module.set_custom_reduce_scatter(
                _Timed(_collectives.DefaultReduceScatter(), self._waiting)
            )
        self._fetch_memory(model)
        # the root has to be known before `with_all_weights` gathers the groups below it
        root: Any = model
        root._get_fsdp_state()._lazy_init()
        for name in division.methods:
            self._gather_for(model, name)

    def _gather_for(self, model: nn.Module, name: str) -> None:
        """Gather the weights around a method, but not again for the methods that it calls."""
        direct = getattr(model, name)
        _fsdp.register_fsdp_forward_method(model, name)
        gathering = getattr(model, name)

        @functools.wraps(direct)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_gathered:
                return direct(*args, **kwargs)
            self._is_gathered = True
            try:
                return gathering(*args, **kwargs)
            finally:
                self._is_gathered = False

        setattr(model, name, call)

    @contextmanager
    def summing_early(self, parameters: Iterable[nn.Parameter], n_passes: int) -> Generator[None]:
        """If weights are sharded, the backward pass sums the gradients anyway."""
        is_summed = self._settings.shard != "none"
        with nullcontext() if is_summed else super().summing_early(parameters, n_passes):
            yield

    def sum_gradients(self, parameters: Iterable[nn.Parameter], numbers: Sequence[Tensor]) -> None:
        """If weights are sharded, the backward pass has summed the gradients already."""
        if self._settings.shard == "none":
            super().sum_gradients(parameters, numbers)
        else:
            self.sum_(numbers)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """From the shares of all ranks: a sum over those that share weights, one over products."""
        squares: dict[bool, list[Tensor]] = {False: [], True: []}
        for gradient in gradients:
            square = _local(gradient).float().pow(2).sum()
            cuts = _cuts(gradient) if isinstance(gradient, DTensor) else ()
            squares["products" in {name for *_, name in cuts}].append(square)
        zero = torch.zeros((), device=_local(gradients[0]).device)
        total = torch.stack([torch.stack([zero, *squares[shared]]).sum() for shared in squares])
        if self._n_shards > 1:
            _collective.all_reduce(total, group=self._shard_group)
        undivided, divided = total.unbind()
        if self._settings.tensor > 1:
            _collective.all_reduce(divided, group=self._mesh.get_group("products"))
        return (undivided + divided).sqrt()

    def by_owners(
        self, function: Callable[[Tensor], Tensor], matrices: Tensor, n_rows: int
    ) -> Tensor:
        """The rows of each matrix go to its owner, and the rows of the result come back."""
        size, rank = self._n_shards, int(self._mesh.get_local_rank("shards"))
        n_own, first = owned(len(matrices), rank, size)
        rows = [_chunk(n_rows, size, n)[1] for n in range(size)]
        columns = matrices.shape[2]
        padded = matrices.new_zeros(n_own * size, *matrices.shape[1:])
        padded[: len(matrices)] = matrices
        by_owner = [n_own * rows[rank] * columns] * size
        by_rows = [n_own * n * columns for n in rows]

        def exchange(flat: Tensor, sizes: list[int], new_sizes: list[int]) -> list[Tensor]:
            received = flat.new_empty(sum(new_sizes))
            _collective.all_to_all_single(received, flat, new_sizes, sizes, group=self._shard_group)
            return list(torch.split_with_sizes(received, new_sizes))

        parts = exchange(padded.reshape(-1), by_owner, by_rows)
        pairs = zip(parts, rows, strict=True)
        own_matrices = torch.cat([part.view(n_own, n, columns) for part, n in pairs], dim=1)
        n_real = min(n_own, max(0, len(matrices) - first))
        results = computed(function, own_matrices[:n_real], n_own)
        split = torch.split_with_sizes(results, rows, dim=1)
        flat = torch.cat([part.reshape(-1) for part in split])
        shares = torch.cat(exchange(flat, by_rows, by_owner)).view_as(padded)
        return shares[: len(matrices)]

    def local(self, tensor: Tensor) -> Tensor:
        """This rank's share."""
        return _local(tensor)

    def full(self, tensor: Tensor) -> Tensor:
        """Gathered from all ranks."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def place(self, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The first one of the ranks with the same share saves it."""
        shape, region = tuple(tensor.shape), self.region(tensor)
        start = tuple(part.start for part in region)
        if not isinstance(tensor, DTensor):
            return (shape, start) if self.rank == 0 else None
        others = set(self._mesh.mesh_dim_names) - {name for *_, name in _cuts(tensor)}
        is_first = all(self._mesh.get_local_rank(name) == 0 for name in others)
        is_empty = any(part.start == part.stop for part in region)
        return (shape, start) if is_first and not is_empty else None

    def region(self, tensor: Tensor) -> tuple[slice, ...]:
        """Cut by cut, as torch divides it."""
        start, lengths = [0] * tensor.ndim, list(tensor.shape)
        for dimension, n_chunks, index, _ in _cuts(tensor) if isinstance(tensor, DTensor) else ():
            first, length = _chunk(lengths[dimension], n_chunks, index)
            start[dimension], lengths[dimension] = start[dimension] + first, length
        return tuple(slice(a, a + n) for a, n in zip(start, lengths, strict=True))

    def as_share(self, local: Tensor, sharded: Tensor) -> Tensor:
        """Nothing is sent."""
        if not isinstance(sharded, DTensor) or local.shape != _local(sharded).shape:
            return local
        share: Any = DTensor.from_local(
            local,
            sharded.device_mesh,
            sharded.placements,
            run_check=False,
            shape=sharded.shape,
            stride=sharded.stride(),
        )
        return share

    def set_values(self, tensor: Tensor, fill: Callable[[Tensor], object]) -> None:
        """The whole of it lies on the CPU meanwhile."""
        full = torch.empty(tensor.shape, dtype=tensor.dtype)
        fill(full)
        _local(tensor).copy_(full[self.region(tensor)])

    @contextmanager
    def with_all_weights(self, model: nn.Module) -> Generator[None]:
        """All groups stay gathered within it."""
        modules = _sharded_modules(model)
        for module in modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        self._is_gathered = True
        try:
            yield
        finally:
            self._is_gathered = False
            for module in modules:
                module.set_reshard_after_forward(module is not model, recurse=False)
                module.reshard()


def _chunk(length: int, n_chunks: int, index: int) -> tuple[int, int]:
    """Where a chunk begins, and its length: torch's last chunks are smaller, or empty."""
    size = -(-length // n_chunks)
    start = min(index * size, length)
    return start, min(size, length - start)


def _cuts(tensor: DTensor) -> Iterator[tuple[int, int, int, str]]:
    """How a tensor is cut: dimension, number of chunks, this rank's chunk, ranks that share it.

    Products come first: torch shards the rest.
    """
    mesh: Any = tensor.device_mesh
    for axis in reversed(range(mesh.ndim)):
        placement: Any = tensor.placements[axis]
        if not placement.is_replicate():
            name = mesh.mesh_dim_names[axis]
            yield placement.dim, mesh.size(axis), mesh.get_local_rank(axis), name


def _sharded_modules(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, fsdp.FSDPModule)]


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
