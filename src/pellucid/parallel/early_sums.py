"""Gradients that are summed over ranks, also while the backward pass computes the others.

The gradients of the last layers are complete first. They are summed in buckets, the last parameters
first, and all ranks begin them in this order: so the sums do not depend on who is faster.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn

#: torch gives these functions no types.
_collective: Any = distributed
#: Bytes that are summed at once.
_BUCKET_BYTES = 32 * 2**20
#: Buckets on their way at once: a second copy of the gradients is as large as these.
_UNDER_WAY = 4


class GradientSums:
    """The sums of the gradients of one update.

    Args:
        parameters: those that are trained, in an order that all ranks share.
        dtype: in which gradients are summed.
        group: of torch; None for all ranks.
        waiting: counts the time within it.
        local: what this rank holds of a gradient.
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        *,
        dtype: torch.dtype,
        group: Any,
        waiting: Callable[[], AbstractContextManager[None]],
        local: Callable[[Tensor], Tensor],
    ) -> None:
        self._dtype, self._group = dtype, group
        self._waiting, self._local = waiting, local
        self._buckets = [*buckets(parameters)][::-1]
        self._bucket_of = {p: n for n, bucket in enumerate(self._buckets) for p in bucket}
        self._n_missing = [len(bucket) for bucket in self._buckets]
        self._n_begun = 0
        self._under_way: deque[tuple[list[Tensor], Tensor, Any]] = deque()

    @contextmanager
    def beginning_early(self, n_passes: int) -> Generator[None]:
        """Within it, a gradient is sent once it is complete: after so many backward passes."""
        passes: Counter[nn.Parameter] = Counter()

        def count(parameter: nn.Parameter) -> None:
            passes[parameter] += 1
            if passes[parameter] == n_passes:
                self._n_missing[self._bucket_of[parameter]] -= 1
                while self._n_begun < len(self._buckets) and not self._n_missing[self._n_begun]:
                    self._begin()

        hooks = [p.register_post_accumulate_grad_hook(count) for p in self._bucket_of]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def finish(self) -> None:
        """Sum what is not summed yet: every parameter has a gradient now."""
        while self._n_begun < len(self._buckets):
            self._begin()
        while self._under_way:
            self._end_first()

    def _begin(self) -> None:
        if len(self._under_way) == _UNDER_WAY:
            self._end_first()
        bucket = self._buckets[self._n_begun]
        self._n_begun += 1
        gradients = [self._local(p.grad) for p in bucket if p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).to(self._dtype)
        work = _collective.all_reduce(flat, group=self._group, async_op=True)
        self._under_way.append((gradients, flat, work))

    def _end_first(self) -> None:
        gradients, flat, work = self._under_way.popleft()
        with self._waiting():
            work.wait()
        copy_back(flat, gradients)


def buckets(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """The tensors in groups of one type and device, in an order that all ranks share."""
    groups: dict[tuple[torch.dtype, torch.device], list[Any]] = {}
    for tensor in tensors:
        group = groups.setdefault((tensor.dtype, tensor.device), [])
        if group and sum(t.nbytes for t in group) + tensor.nbytes > _BUCKET_BYTES:
            yield groups.pop((tensor.dtype, tensor.device))
            group = groups.setdefault((tensor.dtype, tensor.device), [])
        group.append(tensor)
    yield from groups.values()


def copy_back(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy numbers that lie end to end to the tensors that they belong to."""
    start = 0
    for tensor in tensors:
        end = start + tensor.numel()
        tensor.detach().copy_(flat[start:end].view_as(tensor))
        start = end
