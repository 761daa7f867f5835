"""Proposals fit, are sorted by their price, and leave the batch as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid.errors import ConfigError
from pellucid.planning import kinds, propose
from pellucid.presets import find

RUN = find("gpt2-xl")


def test_proposals_fit_and_the_cheapest_is_first() -> None:
    plans = propose(RUN, kinds()["a100-40gb"])
    prices = [round(plan.dollars_per_billion_tokens, 2) for plan in plans]
    assert prices == sorted(prices)
    assert all(plan.fits for plan in plans)
    sizes = {plan.setting.step_tokens for plan in plans}
    assert sizes == {RUN.training.batch_size * RUN.model.context_length}


def test_what_fits_nowhere_is_refused_with_the_memory_that_it_needs() -> None:
    with pytest.raises(ConfigError, match=r"no layout .* fits: it needs .* GiB of 0.9 GiB"):
        propose(RUN, replace(kinds()["h100"], memory=1e9))
