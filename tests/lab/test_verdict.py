"""The verdict follows the interval, and says what the seeds cannot."""

from __future__ import annotations

import pytest

from pellucid.display.metric_labels import measured
from pellucid.lab import paired_difference, verdict

BITS = measured("bits_per_byte")
NAMES = ("A", "B")


def verdict_of(
    first: list[float], second: list[float], *, name: str = "bits_per_byte", equal: bool = False
) -> str:
    difference = paired_difference(first, second)
    return verdict(NAMES, difference, measured(name), p=difference.p, equal_configs=equal)


@pytest.mark.parametrize(
    ("second", "name", "winner"),
    [
        ([0.97, 0.969, 0.971], "bits_per_byte", "B is better by 0.030 bits/byte"),
        ([1.03, 1.031, 1.029], "bits_per_byte", "A is better by 0.030 bits/byte"),
        ([0.97, 0.969, 0.971], "accuracy", "A is better by 0.030 accuracy"),
        ([1.03, 1.031, 1.029], "tokens_per_answer", "B is higher by 0.030 tokens/answer"),
    ],
)
def test_an_interval_without_zero_names_the_better_one(
    second: list[float], name: str, winner: str
) -> None:
    assert verdict_of([1.0, 1.0, 1.0], second, name=name) == f"{winner}, 0.028 to 0.032"


def test_an_interval_with_zero_says_what_was_excluded_and_how_many_seeds_it_takes() -> None:
    text = verdict_of([1.0, 1.0, 1.0, 1.0], [1.02, 0.99, 1.01, 1.0])
    assert text == (
        "no difference larger than 0.026 bits/byte can be seen with 4 seeds; 55 would be needed to "
        "see one of 0.005"
    )


def test_equal_values_are_identical_one_seed_and_none_cannot_tell() -> None:
    verdict = verdict_of([1.0, 2.0], [1.0, 2.0], equal=True)
    assert verdict == "identical: equal configs, and no difference with 2 seeds"
    other = verdict_of([1.0, 2.0], [1.0, 2.0])
    assert other == "no difference with 2 seeds, though the configs differ"
    assert verdict_of([1.0], [2.0]).startswith("one seed cannot tell: the values differ by 1.000")
    assert verdict_of([], []).startswith("nothing to compare")


def test_a_difference_that_one_of_many_pairs_shows_by_chance_is_not_called_better() -> None:
    difference = paired_difference([0.0] * 4, [1.0, 2.0, 3.0, 4.0])
    text = verdict(NAMES, difference, BITS, p=0.08, n_pairs=3)
    assert text.startswith("A may be better by 2.500 bits/byte")
    assert "one of 3 pairs can look so by chance (p = 0.08 after Holm)" in text
