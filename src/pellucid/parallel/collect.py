"""What the ranks of any training tell each other about it, without a collective of the loop's.

A watcher must not add collectives to a loop unasked: a rank that is not watched, or ends early,
would hang the others, or take part in another one. So ranks write short texts to the store in which
they met. To read there never waits; `meet` waits a bounded time, and gives all ranks the same
answer. Shares of a tensor are gathered (`whole_tensor`) only after all ranks have met.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from pellucid.json_text import json_text
from pellucid.reader import parse_json

#: torch gives these functions no types.
_torch: Any = distributed
#: How long the store may take to answer.
_ANSWER = timedelta(seconds=20)
#: How often a rank looks for an answer of the others.
_PAUSE_SECONDS = 0.0005
#: How many have been made in this process, by name: the same on all ranks of a training.
_count_by_name: Counter[str] = Counter()


def collect(name: str) -> Collect | None:
    """The ranks of this process's group that watch a training of this name.

    Args:
        name: the same on all ranks; the second one of a name meets only second ones.

    Returns:
        None if this process is alone.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() == 1:
        return None
    _count_by_name[name] += 1
    store: Any = _torch.distributed_c10d._get_default_store().clone()
    store.set_timeout(_ANSWER)
    prefix = f"pellucid/{name}/{_count_by_name[name]}"
    return Collect(store, distributed.get_rank(), distributed.get_world_size(), prefix)


class Collect:
    """The ranks that watch one training.

    Args:
        store: keys and texts that all ranks share.
        rank: of this process.
        size: how many processes there are.
        prefix: of the keys of this training.
    """

    def __init__(self, store: Any, rank: int, size: int, prefix: str) -> None:
        self._store = store
        self.rank = rank
        self.size = size
        self._prefix = prefix

    def post(self, value: object) -> None:
        """Show the others a value, instead of the one before."""
        self._store.set(self._key("post", self.rank), json_text(value))

    def posted(self, ranks: Iterable[int]) -> dict[int, Any]:
        """The latest value of each of these ranks that has shown one; does not wait."""
        keys = {rank: self._key("post", rank) for rank in ranks}
        present = {rank: key for rank, key in keys.items() if self._store.check([key])}
        if not present:
            return {}
        texts = self._store.multi_get([*present.values()])
        return {
            rank: parse_json(text.decode(), f"rank {rank}")
            for rank, text in zip(present, texts, strict=True)
        }

    def meet(self, key: str, value: object, *, seconds: float) -> list[Any] | None:
        """The value of each rank, once all have called this with the same key.

        All ranks get the values, or none does: the last one to come, or the first one that no
        longer waits, decides for all.

        Args:
            key: of this meeting; each is used once.
            value: of this rank.
            seconds: the longest time to wait for the others.
        """
        store, decision = self._store, self._key("all", key)
        store.set(self._key(key, self.rank), json_text(value))
        if store.add(self._key("count", key), 1) == self.size:
            store.compare_set(decision, "", "yes")
        deadline = time.monotonic() + seconds
        while not store.check([decision]):
            if time.monotonic() > deadline:
                store.compare_set(decision, "", "no")
            time.sleep(_PAUSE_SECONDS)
        if store.get(decision) != b"yes":
            return None
        texts = store.multi_get([self._key(key, rank) for rank in range(self.size)])
        return [parse_json(text.decode(), f"rank {n}") for n, text in enumerate(texts)]

    def _key(self, *parts: object) -> str:
        return "/".join((self._prefix, *map(str, parts)))


def is_share(tensor: Tensor) -> bool:
    """Whether a tensor is one that ranks share, of which this one may hold a part."""
    return hasattr(tensor, "full_tensor")


def whole_tensor(tensor: Tensor) -> Tensor:
    """The whole of a tensor of which each rank may hold a share: all ranks have to call this."""
    gather: Any = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def whole_outputs(layer: nn.Module, outputs: Tensor) -> Tensor:
    """The outputs (..., features) of a layer whose outputs the ranks share.

    Args:
        layer: the layer; its weight says whether ranks share its outputs.
        outputs: this rank's.
    """
    return _joined(layer, outputs, dimension=0)


def whole_inputs(layer: nn.Module, inputs: Tensor) -> Tensor:
    """The inputs (..., features) of a layer whose inputs the ranks share.

    Args:
        layer: the layer; its weight says whether ranks share its inputs.
        inputs: this rank's.
    """
    return _joined(layer, inputs, dimension=1)


def _joined(layer: nn.Module, features: Tensor, *, dimension: int) -> Tensor:
    weight: Any = getattr(layer, "weight", None)
    if is_share(features):
        return whole_tensor(features)
    for axis, placement in enumerate(getattr(weight, "placements", ())):
        if placement.is_shard(dimension):
            mesh = weight.device_mesh
            parts = [torch.empty_like(features) for _ in range(mesh.size(axis))]
            _torch.all_gather(parts, features.contiguous(), group=mesh.get_group(axis))
            return torch.cat(parts, -1)
    return features


@contextmanager
def resharded(model: nn.Module) -> Generator[None]:
    """At its end, each rank holds its share again of the groups of which it held one before."""
    modules: list[Any] = [
        module
        for module in model.modules()
        if _holds_shares(module) and all(group.is_sharded for group in _groups_of(module))
    ]
    try:
        yield
    finally:
        for module in modules:
            module.reshard()


def _holds_shares(module: nn.Module) -> bool:
    """Whether FSDP2 divides a module: it makes a class of its own for it."""
    return any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)


def _groups_of(module: Any) -> list[Any]:
    """The groups of weights that FSDP2 gathers for a module."""
    return list(getattr(module._get_fsdp_state(), "_fsdp_param_groups", ()))


def averages_gradients(model: nn.Module) -> bool:
    """Whether FSDP divides sums of gradients by the number of ranks, as it does by default."""
    groups = [g for m in model.modules() if _holds_shares(m) for g in _groups_of(m)]
    return all(getattr(group, "gradient_divide_factor", None) is None for group in groups)


def read_different_rows(model: nn.Module) -> bool:
    """Whether each rank has rows of its own: ranks that share products read the same ones."""
    shards = any(_holds_shares(module) for module in model.modules())
    for parameter in model.parameters():
        placements: Any = getattr(parameter, "placements", ())
        n_cuts = sum(not placement.is_replicate() for placement in placements)
        # shares of weights (FSDP) are cut once; the copies of them are on another dimension
        if n_cuts > shards or getattr(parameter, "tensor_model_parallel", False):
            return False
    return True
