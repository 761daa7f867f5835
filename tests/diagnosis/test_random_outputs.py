"""Outputs that are random in evaluation: dropout is a fault, and sampling may be by design."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import assert_repeatable, check
from pellucid.vitals.taps.dropout_calls import DropoutCalls


class Speaker(nn.Module):
    """Logits of each token; a subclass adds what is random."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.head = nn.Embedding(30, 8), nn.Linear(8, 30)

    def vary(self, x: Tensor) -> Tensor:
        """Nothing is random here."""
        return x

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (rows, time, vocab) of ids (rows, time)."""
        return self.head(self.vary(self.tokens(ids)))


class Dropping(Speaker):
    def vary(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.3)


class Sampling(Speaker):
    def vary(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


@pytest.mark.parametrize(("model", "severity"), [(Dropping, "fault"), (Sampling, "note")])
def test_check_tells_dropout_from_a_model_that_samples(model: type, severity: str) -> None:
    findings = {each.code: each for each in check(model())}
    assert findings["RND001"].severity == severity
    assert ("dropout runs" in findings["RND001"].what) == (severity == "fault")


@pytest.mark.parametrize("model", [Dropping, Sampling])
def test_assertion_of_repeatable_outputs_fails_for_both(model: type) -> None:
    assert_repeatable(Speaker())
    with pytest.raises(AssertionError, match="RND001"):
        assert_repeatable(model())


def test_share_that_is_dropped_is_read_off_each_function() -> None:
    x = torch.ones(2, 4, 8)
    for expected, call in (
        (0.3, lambda: F.dropout(x, 0.3)),
        (0.5, lambda: F.dropout(x)),
        (0.2, lambda: torch.dropout(x, 0.2, True)),
        (0.4, lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=0.4)),
        (0.0, lambda: F.scaled_dot_product_attention(x, x, x)),
        (0.0, lambda: nn.Dropout(0.3).eval()(x)),
        (0.0, lambda: x + torch.randn_like(x)),
    ):
        with DropoutCalls() as dropout:
            call()
        assert dropout.share == expected
