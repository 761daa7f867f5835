"""Random configurations of every family give the numbers of `transformers`, as the page says."""

from __future__ import annotations

import re

import pytest

from pellucid.checkpoints.huggingface import FAMILIES
from support.conformance import ON_PAGE, SAMPLED, TOLERANCE, draw, options_of, parts, worst

parity = pytest.mark.parity
# not ours to repair
theirs = pytest.mark.filterwarnings("default")
ROW = re.compile(r"\| `(\w[\w-]*)` \| ([^|]*) \| ([^|]*) \| (\S+) \|")


def shown() -> dict[str, tuple[str, str, float]]:
    rows = [ROW.fullmatch(line) for line in parts()[1].splitlines()]
    return {row[1]: (row[2], row[3], float(row[4])) for row in rows if row is not None}


@parity
@theirs
@pytest.mark.parametrize("name", FAMILIES)
def test_random_configurations_give_the_same_numbers(name: str) -> None:
    assert worst(name, range(SAMPLED))[0] < TOLERANCE


@parity
@theirs
@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
def test_more_random_configurations_give_the_same_numbers(name: str) -> None:
    assert worst(name, range(SAMPLED, ON_PAGE + 8))[0] < TOLERANCE


@parity
def test_the_page_lists_every_family_with_the_options_that_are_drawn() -> None:
    assert shown().keys() == FAMILIES.keys()
    for name, (_, options, _) in shown().items():
        assert options == ", ".join(f"`{option}`" for option in options_of(FAMILIES[name])), name


def test_no_difference_on_the_page_is_above_that_of_the_tests() -> None:
    assert shown()
    assert all(worst_difference < TOLERANCE for _, _, worst_difference in shown().values())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_configuration_is_drawn_the_same_each_time(name: str) -> None:
    assert [draw(name, n) for n in range(3)] == [draw(name, n) for n in range(3)]
    assert len({str(draw(name, n).attributes) for n in range(3)}) == 3
