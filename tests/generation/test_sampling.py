from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import ConfigError
from pellucid.generation import Sampling, choose
from pellucid.generation.sampling import distribution

LOGITS = (2.0, -1.0, 0.5, 1.9, -3.0, 0.0, 1.2, 0.4)
#: The 99.9 % points of chi-squared, by degrees of freedom.
CRITICAL = {1: 10.828, 2: 13.816, 3: 16.266, 4: 18.467, 5: 20.515, 6: 22.458, 7: 24.322}


def expected_shares(
    logits: Sequence[float], temperature: float, top_k: int | None, top_p: float | None
) -> list[float]:
    """The distribution, one token at a time and without torch."""
    weights = [math.exp(logit / temperature) for logit in logits]
    order = sorted(range(len(logits)), key=lambda i: -weights[i])
    within_top_k = order[: top_k or len(order)]
    total = sum(weights[i] for i in within_top_k)
    share_so_far, within_top_p = 0.0, []
    for i in within_top_k:
        if top_p is not None and share_so_far >= top_p:
            break
        within_top_p.append(i)
        share_so_far += weights[i] / total
    total = sum(weights[i] for i in within_top_p)
    return [weights[i] / total if i in within_top_p else 0.0 for i in range(len(logits))]


def chi_squared(counts: Sequence[int], shares: Sequence[float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom, over the tokens that may occur."""
    n = sum(counts)
    possible = [(c, n * p) for c, p in zip(counts, shares, strict=True) if p > 0]
    return sum((c - e) ** 2 / e for c, e in possible), len(possible) - 1


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (1.0, None, None),
        (0.5, None, None),
        (3.0, None, None),
        (1.0, 3, None),
        (1.0, None, 0.7),
        (2.0, 5, 0.8),
        (0.7, 100, 1.0),
    ],
)
def test_frequencies_match_the_distribution(
    temperature: float, top_k: int | None, top_p: float | None
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    n = 20_000
    uniforms = torch.rand(n, generator=torch.Generator().manual_seed(20))
    drawn_ids = choose(torch.tensor(LOGITS).expand(n, -1), uniforms, sampling)
    counts = torch.bincount(drawn_ids, minlength=len(LOGITS)).tolist()
    shares = expected_shares(LOGITS, temperature, top_k, top_p)
    assert not any(c for c, p in zip(counts, shares, strict=True) if p == 0)
    statistic, degrees = chi_squared(counts, shares)
    assert statistic < CRITICAL[degrees]


@settings(max_examples=60)
@given(
    logits=st.lists(st.floats(-8, 8), min_size=2, max_size=9, unique_by=lambda x: round(x, 3)),
    temperature=st.floats(0.2, 4),
    top_k=st.none() | st.integers(1, 10),
    top_p=st.none() | st.floats(0.05, 0.99),
)
def test_the_distribution_is_the_one_made_by_hand(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    shares = distribution(torch.tensor([logits], dtype=torch.float64), sampling)[0]
    expected = expected_shares(logits, temperature, top_k, top_p)
    torch.testing.assert_close(shares, torch.tensor(expected, dtype=torch.float64))


def test_a_token_is_drawn_where_the_cumulative_distribution_passes_the_number() -> None:
    logits = torch.tensor([[0.25, 0.0, 0.5, 0.25]]).log()
    for uniform, token in ((0.0, 0), (0.2499, 0), (0.2501, 2), (0.7499, 2), (0.9999, 3)):
        drawn_ids = choose(logits, torch.tensor([uniform]), Sampling(temperature=1.0))
        assert drawn_ids.tolist() == [token]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_a_token_without_probability_is_never_drawn(uniform: float) -> None:
    logits = torch.tensor([[-math.inf, 1.0, -math.inf, 1.0, -math.inf]])
    drawn_ids = choose(logits, torch.tensor([uniform]), Sampling(temperature=1.0))
    assert drawn_ids.item() in (1, 3)


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-300])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_a_vanishing_temperature_is_greedy(temperature: float, scale: float) -> None:
    logits = torch.tensor([LOGITS]) * scale
    drawn_ids = choose(logits, torch.tensor([0.99]), Sampling(temperature=temperature))
    assert drawn_ids.tolist() == [0]


def test_each_row_is_drawn_by_its_own_number() -> None:
    logits = torch.zeros(4, 4)
    uniforms = torch.tensor([0.9, 0.1, 0.6, 0.3])
    assert choose(logits, uniforms, Sampling(temperature=1.0)).tolist() == [3, 0, 2, 1]


def test_a_larger_number_draws_a_later_token() -> None:
    uniforms = torch.linspace(0, 0.999, 200)
    drawn_ids = choose(torch.tensor(LOGITS).expand(200, -1), uniforms, Sampling(temperature=1.0))
    assert all(a <= b for a, b in pairwise(drawn_ids.tolist()))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_new_tokens", 0, "at least 1"),
        ("temperature", -0.1, "at least 0"),
        ("temperature", math.nan, "at least 0"),
        ("top_k", 0, "at least 1"),
        ("top_p", 0.0, "in (0, 1]"),
        ("top_p", 1.01, "in (0, 1]"),
        ("top_p", math.nan, "in (0, 1]"),
        ("min_p", 0.0, "in (0, 1]"),
        ("min_p", 1.01, "in (0, 1]"),
        ("repetition_penalty", 0.0, "from 1e-9 to 1e9"),
        ("repetition_penalty", 1e-320, "logits overflow"),
        ("repetition_penalty", math.inf, "from 1e-9 to 1e9"),
        ("repetition_penalty", math.nan, "from 1e-9 to 1e9"),
        ("seed", -1, "between 0 and 2^63 - 1"),
        ("seed", 2**63, "between 0 and 2^63 - 1"),
        ("stop", ("a", ""), "not empty"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Sampling(**{name: value})  # type: ignore[arg-type]
    message = str(refusal.value)
    assert message.startswith(f"{name} must be")
    assert allowed in message
    assert str(value) in message


def test_filters_come_after_the_temperature_min_p_last() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log()
    for temperature, n_kept in ((1.0, 2), (3.0, 3), (0.2, 1)):
        shares = distribution(logits, Sampling(temperature=temperature, top_k=3, min_p=0.4))
        assert (shares > 0).sum() == n_kept
    # of what top-k left, min-p 0.5 keeps two, by the shares that they had among all
    shares = distribution(logits, Sampling(temperature=1.0, top_k=3, min_p=0.5))
    torch.testing.assert_close(shares[0], torch.tensor([5, 3, 0, 0]).double() / 8)


@pytest.mark.parametrize("temperature", [1e-30, 1e-200, 1e-320, 5e-324])
def test_the_lowest_temperatures_are_greedy_without_an_overflow(temperature: float) -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0 - 2**-20]])
    p = torch.as_tensor(distribution(logits.numpy(), Sampling(temperature=temperature)))
    assert p.tolist() == [[0.0, 1.0, 0.0, 0.0]]
