"""Linear head and cross-entropy in one, in chunks, so that the whole logits matrix never exists.

For a vocabulary of 50,000 and 2,048 tokens the logits need 400 MB, and their gradient as much
again. Here the forward pass computes the logits of a chunk, turns them into p - y, and adds that
to both gradients. The backward pass only scales these gradients. The number of matrix products
stays three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import LanguageModel, TokenBatch
from pellucid.counting import chunk_rows
from pellucid.objectives.chunk_errors import Chunk, errors_by_torch, errors_in_c, sum_type
from pellucid.objectives.compiled_errors import compiled_errors
from pellucid.typed import apply_function

#: On a CPU the gradient of the matrix is added in slices of this size, which fit into the cache.
_SLICE_BYTES = 2**22


class LinearCrossEntropy(NamedTuple):
    """The scalar to minimise, and its terms per token, without gradient, in float32.

    `hits` is 1 where no logit is larger than the target's, else 0.

    Attributes:
        loss: a scalar, in nats.
        token_losses: -log p of each target, (tokens,).
        log_z: log of the sum of exp(logits), (tokens,).
    """

    loss: Float[Tensor, ""]
    token_losses: Float[Tensor, " tokens"]
    log_z: Float[Tensor, " tokens"]
    hits: Float[Tensor, " tokens"]


def linear_cross_entropy(
    hidden: Float[Tensor, "tokens d_model"],
    weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, " tokens"],
    *,
    divisor: float,
    bias: Float[Tensor, " vocab"] | None = None,
    soft_cap: float | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> LinearCrossEntropy:
    """The cross-entropy of `hidden @ weight.T + bias` against `targets`, divided by `divisor`.

    loss = sum_t [ -sum_i y_i log p_i + z_loss (log Z)^2 ] / divisor,  y = (1 - s) onehot + s / V

    Positions whose target is `IGNORED` add nothing: token loss and gradient are exactly 0, and they
    are no hit. Under autocast the matrix products are in its dtype; the softmax, the losses and
    their sum are always float32. `token_losses` are the plain -log p of the target, without
    smoothing.

    Args:
        hidden: (tokens, d_model), the last hidden states.
        weight: W, (vocab, d_model), the matrix of the head.
        targets: (tokens,), the next tokens, or `IGNORED`.
        divisor: the number of supervised tokens of the whole update.
        bias: (vocab,), added to the logits; None for no bias.
        soft_cap: c; the logits become c tanh(z / c). None for no cap.
        label_smoothing: s, in [0, 1].
        z_loss: the weight of (log Z)^2.

    Units:
        Nats.
    Gradient:
        By the logits g = (p (1 + 2 z_loss log Z) - y) / divisor, times 1 - (logit / c)^2 if capped;
        by `hidden` g W; by W g^T hidden; by the bias the sum of g.
    See also:
        `pellucid.maths.cross_entropy`, against which it is tested.
    """
    device = hidden.device.type
    smoothing = (label_smoothing, z_loss)
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):
        outputs = apply_function(
            _Function, hidden.to(dtype), weight, bias, targets, divisor, smoothing, soft_cap
        )
    return LinearCrossEntropy(*outputs)


def head_cross_entropy(
    model: LanguageModel,
    batch: TokenBatch,
    *,
    divisor: float,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> LinearCrossEntropy:
    """`linear_cross_entropy` of a model's own head, with its bias and soft cap, over a batch.

    Args:
        model: gives the hidden states and the head.
        batch: the token ids and targets.
        divisor: the number of supervised tokens of the whole update.
        label_smoothing: s, in [0, 1].
        z_loss: the weight of (log Z)^2.
    """
    return linear_cross_entropy(
        model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding).flatten(
            0, 1
        ),
        model.head_weight,
        batch.targets.flatten(),
        divisor=divisor,
        bias=model.head_bias,
        soft_cap=model.soft_cap,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
    )


def _add_product(total: Tensor, errors: Tensor, hidden: Tensor, *, first: bool) -> None:
    """Add `errors.T @ hidden` to `total`, or write it there if it is the first."""
    vocab, width = total.shape
    on_cpu = total.device.type == "cpu"
    size = max(1, _SLICE_BYTES // (width * hidden.itemsize)) if on_cpu else vocab
    for start in range(0, vocab, size):
        block, part = total[start : start + size], errors[:, start : start + size]
        if block.dtype == hidden.dtype:
            block.addmm_(part.t(), hidden, beta=0 if first else 1)
        elif first:
            block.copy_(part.t() @ hidden)
        else:
            block.add_(part.t() @ hidden)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        divisor: float,
        smoothing: tuple[float, float],
        soft_cap: float | None,
    ) -> tuple[Tensor, ...]:
        by_hidden, by_weight, by_bias = ctx.needs_input_grad[:3]
        label_smoothing, z_loss = smoothing
        matrix = weight.to(hidden.dtype)
        wide = sum_type(hidden.dtype)
        n, vocab = hidden.shape[0], weight.shape[0]
        token_losses = torch.zeros(n, dtype=wide, device=hidden.device)
        log_z, hits = torch.zeros_like(token_losses), torch.zeros_like(token_losses)
        penalty = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if by_hidden else None
        grad_bias = torch.zeros(vocab, dtype=wide, device=weight.device) if by_bias else None
        learning = by_hidden or by_weight or by_bias
        # either needs no float32 copy of the logits
        lean = (errors_in_c(hidden) if soft_cap is None else None) or compiled_errors()
        make = lean or errors_by_torch
        chunk = Chunk(bias, divisor, label_smoothing, z_loss, soft_cap, learning)
        width = hidden.itemsize if lean else wide.itemsize
        rows = chunk_rows(n, vocab, width, on_gpu=hidden.is_cuda)
        room = hidden.new_empty(min(rows, n), vocab)
        # a sum over chunks is kept wide: bfloat16 would lose small addends
        sum_dtype = weight.dtype if n <= rows else wide
        grad_weight = torch.empty_like(weight, dtype=sum_dtype) if by_weight and n else None
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            chunk_hidden = hidden[part]
            logits = torch.mm(chunk_hidden, matrix.t(), out=room[: len(chunk_hidden)])
            chunk_errors = make(logits, targets[part], chunk)
            token_losses[part], log_z[part], hits[part] = (
                chunk_errors.losses,
                chunk_errors.log_z,
                chunk_errors.hits,
            )
            penalty += chunk_errors.extra.sum()
            if not learning:
                continue
            if grad_bias is not None:
                grad_bias += chunk_errors.errors.sum(0, dtype=wide)
            if grad_hidden is not None:
                torch.mm(chunk_errors.errors, matrix, out=grad_hidden[part])
            if grad_weight is not None:
                _add_product(grad_weight, chunk_errors.errors, chunk_hidden, first=start == 0)
        by_matrix = None if grad_weight is None else grad_weight.to(weight.dtype)
        ctx.save_for_backward(grad_hidden, by_matrix, grad_bias)
        ctx.mark_non_differentiable(token_losses, log_z, hits)
        return (token_losses.sum() + penalty) / divisor, token_losses, log_z, hits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = cast("Sequence[Tensor | None]", ctx.saved_tensors)
        scale = grads[0]
        if (
            scale.device.type != "cpu" or scale != 1
        ):  # reading it on a GPU would wait for the device
            saved = [None if grad is None else grad * scale.to(grad.dtype) for grad in saved]
        return (*saved, None, None, None, None)
