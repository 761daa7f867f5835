"""What the gradient of a first call's logits adds up to."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pellucid.vitals.call.paid_targets import paid_targets

VOCAB = 40


@pytest.mark.parametrize("noise", [1e-9, 0.0])
def test_rounding_errors_at_places_that_nothing_pays_for_do_not_count(noise: float) -> None:
    draws = torch.Generator().manual_seed(4)
    logits = torch.randn(4, 12, VOCAB, generator=draws).requires_grad_()
    labels = torch.randint(VOCAB, (4, 4), generator=draws)
    F.cross_entropy(logits[:, 8:].flatten(0, 1), labels.flatten()).backward()
    assert logits.grad is not None
    # such as the first gradient of a distance from the model of the start
    gradient = logits.grad + noise * (torch.arange(12) < 8)[None, :, None]
    model = nn.Embedding(VOCAB, 8)
    unbalanced = paid_targets(gradient, logits.detach(), model).unbalanced
    assert unbalanced is not None
    assert unbalanced < 1e-5
