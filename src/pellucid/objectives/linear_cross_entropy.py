"""Linear head and cross-entropy in one, in chunks, so that the whole logits matrix never exists.

Comes in: hidden states, the head's matrix, targets. Goes out: the loss in float32, and per token
its loss and log Z. It does not know the model, nor what the tokens mean.

A vocabulary of 50,000 and 2,048 tokens make 400 MB of logits, as much again for their gradient.
Here a chunk of rows is scored, turned into p - y, and folded into both gradients at once while it
is at hand; the backward pass only scales what is already there. Three matrix products, as ever.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import IGNORED, LanguageModel, TokenBatch
from pellucid.typed import apply_function

#: Logits alive at a time: 16 MB in float32. glibc keeps blocks of up to 32 MB for the next chunk;
#: larger ones it gives back, and all their pages are faulted in again. Fewer rows than
#: `_LEAST_ROWS` starve the matrix product.
_CHUNK_LOGITS = 2**22
_LEAST_ROWS = 256


def chunk_rows(vocab_size: int) -> int:
    """How many rows of logits are alive at a time."""
    return max(_LEAST_ROWS, _CHUNK_LOGITS // vocab_size)


class LinearCrossEntropy(NamedTuple):
    """The scalar to minimise, and what it is made of: per token, without gradient, in float32.

    `hits` is 1 where no logit is larger than the target's, else 0.
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

    With `soft_cap` c the logits are c tanh(z / c).

    Positions whose target is `IGNORED` add nothing, and get a token loss of 0, no hit and a
    gradient of exactly 0. Under autocast the matrix products are taken in its dtype; the softmax,
    the losses and their sum are float32 always. `token_losses` are the plain -log p of the target,
    whatever the smoothing.

    Units:
        Nats.
    Gradient:
        By the logits (p (1 + 2 z_loss log Z) - y) / divisor, times 1 - (logit / c)^2 where they are
        capped; by `hidden` that times W; by W its transpose times `hidden`; by the bias its sum.
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
    """`linear_cross_entropy` of a model's own head, whatever belongs to it, over a batch."""
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
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        n, vocab = hidden.shape[0], weight.shape[0]
        token_losses = torch.zeros(n, dtype=wide, device=hidden.device)
        log_z, hits = torch.zeros_like(token_losses), torch.zeros_like(token_losses)
        penalty = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if by_hidden else None
        # The sum over chunks is kept wide: bf16 would forget the small addends.
        grad_weight = torch.zeros(weight.shape, dtype=wide, device=weight.device)
        grad_bias = torch.zeros(vocab, dtype=wide, device=weight.device) if by_bias else None
        rows = chunk_rows(vocab)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            here = hidden[part]
            logits = F.linear(here, matrix).to(wide)
            if bias is not None:
                logits += bias
            slope = None
            if soft_cap is not None:
                logits.div_(soft_cap).tanh_()
                slope = 1 - logits.square()
                logits.mul_(soft_cap)
            seen = (targets[part] != IGNORED).to(wide)
            index = targets[part].clamp(min=0)[:, None]
            score = logits.gather(1, index)[:, 0]
            mean = logits.mean(-1) if label_smoothing else score
            # softmax in place, one exponential for both log Z and p
            top = logits.amax(-1)
            errors = logits.sub_(top[:, None]).exp_()
            total = errors.sum(-1)
            z = top + total.log()
            token_losses[part] = (z - score) * seen
            log_z[part] = z
            hits[part] = (score >= top) * seen
            if label_smoothing or z_loss:
                extra = label_smoothing * (score - mean) + z_loss * z.square()
                penalty += (extra * seen).sum()
            if not (by_hidden or by_weight or by_bias):
                continue
            # (p (1 + 2 z_loss log Z) - y) / divisor, and nothing where the target is ignored
            errors.mul_(((1 + 2 * z_loss * z) / total)[:, None])
            if label_smoothing:
                errors.sub_(label_smoothing / vocab)
            hit = torch.full_like(index, label_smoothing - 1, dtype=wide)
            errors.scatter_add_(1, index, hit).mul_((seen / divisor)[:, None])
            if slope is not None:
                errors.mul_(slope)
            if grad_bias is not None:
                grad_bias += errors.sum(0)
            narrow = errors.to(hidden.dtype)
            if grad_hidden is not None:
                torch.mm(narrow, matrix, out=grad_hidden[part])
            if by_weight:
                grad_weight += narrow.t() @ here
        by_matrix = grad_weight.to(weight.dtype) if by_weight else None
        ctx.save_for_backward(grad_hidden, by_matrix, grad_bias)
        ctx.mark_non_differentiable(token_losses, log_z, hits)
        return (token_losses.sum() + penalty) / divisor, token_losses, log_z, hits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = cast("tuple[Tensor | None, ...]", ctx.saved_tensors)
        scale = grads[0]
        by_input = [None if grad is None else grad * scale.to(grad.dtype) for grad in saved]
        return (*by_input, None, None, None, None)
