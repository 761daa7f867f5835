"""Compute any function of the logits in chunks of rows, so that all logits never exist at once.

The backward pass computes the logits of each chunk again. So the function can be anything that
torch differentiates. For plain cross-entropy, `linear_cross_entropy` needs no second computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import IGNORED, LanguageModel
from pellucid.counting import chunk_rows
from pellucid.typed import computed_again


@dataclass(frozen=True, slots=True)
class LazyLogits:
    """Logits that are computed on demand: hidden states, one row per token, and the head.

    logits = `soft_cap` tanh((hidden weight^T + bias) / `soft_cap`) / `temperature`

    Attributes:
        hidden: (tokens, d_model).
        weight: the matrix of the head, (vocab, d_model).
        bias: of the head, (vocab,); None without one.
    """

    hidden: Float[Tensor, "tokens d_model"]
    weight: Float[Tensor, "vocab d_model"]
    bias: Float[Tensor, " vocab"] | None
    soft_cap: float | None
    temperature: float = 1.0

    @classmethod
    def from_model(
        cls,
        model: LanguageModel,
        hidden: Float[Tensor, "batch time d_model"],
        *,
        temperature: float = 1.0,
    ) -> LazyLogits:
        """The logits of a model's own head.

        Args:
            model: has the head.
            hidden: its last hidden states.
            temperature: divides the logits.
        """
        return cls(
            hidden.flatten(0, 1), model.head_weight, model.head_bias, model.soft_cap, temperature
        )

    def detach(self) -> LazyLogits:
        """The same numbers, without a gradient."""
        return replace(
            self,
            hidden=self.hidden.detach(),
            weight=self.weight.detach(),
            bias=None if self.bias is None else self.bias.detach(),
        )

    def compute(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "rows vocab"]:
        """Some rows of the logits, in float32 at least; the matrix product is in `dtype`."""
        hidden = self.hidden[rows].to(dtype)
        logits = F.linear(hidden, self.weight.to(dtype))
        logits = logits if dtype == torch.float64 else logits.float()
        if self.bias is not None:
            logits = logits + self.bias
        if self.soft_cap is not None:
            logits = self.soft_cap * torch.tanh(logits / self.soft_cap)
        return logits if self.temperature == 1.0 else logits / self.temperature


def in_chunks(
    function: Callable[..., tuple[Tensor, ...]], lazy: Sequence[LazyLogits], *rows: Tensor
) -> tuple[Tensor, ...]:
    """The results of `function(logits, ..., rows, ...)` for all rows, computed chunk by chunk.

    As in `linear_cross_entropy`, products are in autocast's dtype and logits in float32 (float64 if
    hidden states are); `function` runs outside autocast.

    Args:
        function: takes a chunk of each of the `lazy` logits, then of each tensor in `rows`, and
            returns a tuple of tensors with one value per row. It must not draw random numbers.
        lazy: the logits of one model or of several.
        rows: tensors with one entry per row.
    """
    first = lazy[0].hidden
    device = first.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else first.dtype

    def compute(part: slice) -> tuple[Tensor, ...]:
        with torch.autocast(device, enabled=False):
            logits = [lazy_logits.compute(part, dtype) for lazy_logits in lazy]
            return function(*logits, *(row[part] for row in rows))

    n = first.shape[0]
    vocab = lazy[0].weight.shape[0]
    size = chunk_rows(n, vocab, torch.float32.itemsize, on_gpu=first.is_cuda)
    chunks = (partial(compute, slice(start, start + size)) for start in range(0, n, size))
    outputs = [computed_again(chunk) if torch.is_grad_enabled() else chunk() for chunk in chunks]
    return tuple(torch.cat(values) for values in zip(*outputs, strict=True))


def token_log_p(lazy: LazyLogits, targets: Int[Tensor, " tokens"]) -> Float[Tensor, " tokens"]:
    """log p of each target; exactly 0, with a gradient of exactly 0, where it is `IGNORED`.

    log p_t = x_t - log sum_i exp(x_i)

    See also:
        `pellucid.maths.log_softmax`, against which it is tested.
    """
    (log_p,) = in_chunks(_log_p, [lazy], targets)
    return log_p


def _log_p(logits: Tensor, targets: Tensor) -> tuple[Tensor]:
    score = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    return (supervised(score - logits.logsumexp(-1), targets),)


def supervised(values: Tensor, targets: Tensor) -> Tensor:
    """The values, and exactly 0 where the target is `IGNORED`."""
    return torch.where(targets != IGNORED, values, 0.0)


def row_log_p(
    model: LanguageModel,
    hidden: Float[Tensor, "batch time d_model"],
    targets: Int[Tensor, "batch time"],
    *,
    temperature: float = 1.0,
) -> Float[Tensor, "batch time"]:
    """`token_log_p` by a model's own head, in the shape of the batch.

    Args:
        model: has the output head.
        hidden: (batch, time, d_model), its last hidden states.
        targets: (batch, time), the next tokens; ignored ones give 0.
        temperature: divides the logits.
    """
    lazy = LazyLogits.from_model(model, hidden, temperature=temperature)
    return token_log_p(lazy, targets.flatten()).view_as(targets)
