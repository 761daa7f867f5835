"""A model that writes a given text: for tests of how text is put together and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from pellucid.model import KeyValueCache
from pellucid.model.positions import NoPositions


class Scripted(nn.Module):
    """For any input it continues with the ids of its script, and then repeats the last one.

    The script of row r is `scripts[r]`; it starts after the `lengths[r]` tokens of the prompt.
    """

    context_length = 512
    encoder = None
    decoder = None
    #: generation asks whether positions change as the text grows; these never do
    stack = SimpleNamespace(positions=NoPositions())

    def __init__(
        self, vocab_size: int, scripts: Sequence[Sequence[int]], lengths: Sequence[int]
    ) -> None:
        super().__init__()
        self.head_weight = torch.eye(vocab_size)
        self._scripts = scripts
        self._lengths = lengths
        #: what generation asks for token logits, which this one gives
        self.output_head = self

    def require_token_logits(self) -> None:
        """It has them."""

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return self.head_weight.device

    def logits(self, hidden: Tensor) -> Tensor:
        """The states themselves."""
        return hidden @ self.head_weight.T

    def eval(self) -> None:
        """There is no dropout to turn off."""

    def new_caches(self) -> list[KeyValueCache]:
        """One cache, to count the tokens that were read."""
        return [KeyValueCache(context_length=self.context_length)]

    def hidden_states(
        self, ids: Tensor, caches: list[KeyValueCache], *, encoded: None = None
    ) -> Tensor:
        """One-hot states: with the identity as head they are the logits."""
        caches[0].advance(ids.shape[1])
        place = caches[0].length
        following = [
            script[min(max(place - length, 0), len(script) - 1)]
            for script, length in zip(self._scripts, self._lengths, strict=True)
        ]
        return self.head_weight[following][:, None].expand(-1, ids.shape[1], -1)
