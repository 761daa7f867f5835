"""How far the logits of a loss are from those that the model gave, from the loss's gradient.

The gradient of a cross-entropy by the logits is w softmax(z') at tokens that are no target, for the
logits z' of the loss. So log g is z' but for a constant of the place, and z' - z is what a loop
adds to the logits z that it was given. A constant of each token counts for nothing: masks of tokens
and corrections by their frequency add one.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

#: The fewest places and tokens; and the most places and tokens that are read.
_FEWEST, _PLACES, _TOKENS = 8, 64, 256
#: If z explains so much of log g, the loss has the model's logits: divided, capped or smoothed.
_EXPLAINED = 0.5


def logit_noise(
    gradient: Float[Tensor, "rows places vocab"],
    logits: Float[Tensor, "rows places vocab"],
    is_plain: Bool[Tensor, "rows places"],
) -> float | None:
    """The spread of z' - z in nats, 0 if z explains z'; None if the gradient does not show z'.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits z.
        is_plain: Whether the gradient of a place pulls one token alone.
    """
    if int(is_plain.sum()) < _FEWEST or gradient.dtype == torch.float16:
        return None
    g, z = gradient[is_plain], logits[is_plain]
    places = slice(None, None, max(1, len(g) // _PLACES))
    tokens = slice(None, None, max(1, g.shape[-1] // _TOKENS))
    targets = g[places].argmin(-1)
    g, z = g[places, tokens].double(), z[places, tokens].double()
    ids = torch.arange(gradient.shape[-1], device=g.device)[tokens]
    # a token counts if it has a gradient at every place, and is nowhere the target
    is_other = ~(ids == targets[:, None]).any(0) & (g > 0).all(0) & z.isfinite().all(0)
    if int(is_other.sum()) < _FEWEST:
        return None
    log_g, z = _centred(g[:, is_other].log()), _centred(z[:, is_other])
    size = (log_g.square().mean() * z.square().mean()).sqrt()
    if float(size) == 0 or float((log_g * z).mean() / size) ** 2 > _EXPLAINED:
        return 0.0
    return float((log_g - z).square().mean().sqrt())


def _centred(x: Tensor) -> Tensor:
    """Without the mean of each place and of each token."""
    x = x - x.mean(1, keepdim=True)
    return x - x.mean(0, keepdim=True)
