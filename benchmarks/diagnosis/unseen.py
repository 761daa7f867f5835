"""What the architectures that nothing was chosen on are given: ten classes each.

Comes in: nothing. Goes out: names.
"""

from __future__ import annotations

UNSEEN: dict[str, tuple[str, ...]] = {
    "encoder": (
        "learning rate too high",
        "first weights too large",
        "weight decay too strong",
        "eps of Adam too large",
        "padding attended",
        "positions missing",
        "branch detached",
        "block frozen",
        "softmax twice",
        "same batches again",
    ),
    "pair": (
        "learning rate too high",
        "learning rate too low",
        "first weights too small",
        "no residual path",
        "no causal mask",
        "heads not transposed",
        "loss summed",
        "gradients not cleared",
        "weights not in the optimiser",
        "weight decay too strong",
    ),
}
