"""The kinds of device: the table is whole, a file of one's own is read or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.errors import ConfigError
from pellucid.planning import find_kind, kinds


def test_the_kinds_are_there() -> None:
    assert list(kinds()) == ["h100", "h200", "b200", "a100-80gb", "a100-40gb", "cpu"]


def test_a_file_of_ones_own_starts_from_a_kind(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text('base = "h100"\nlink = 1e9\nprice = 1.5\n', encoding="utf-8")
    kind, h100 = find_kind(str(file)), kinds()["h100"]
    assert (kind.link, kind.price, kind.bandwidth) == (1e9, 1.5, h100.bandwidth)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "h101"', "base must be one of h100"),
        ('base = ["h100"]', "base must be one of h100"),
        ('base = "h100"\nlinks = 3', "unknown key 'links'; did you mean 'link'"),
        ('base = "h100"\nproducts = 1.2', "products must be a share, at most 1, was 1.2"),
        ('base = "h100"\nmemory = 0', "memory must be greater than 0"),
        ('base = "h100"\nnode = "8"', "node"),
        ("price = 1.0", "missing 'bfloat16'"),
        ("price = ", "slow.toml"),
    ],
)
def test_a_bad_file_is_refused_by_its_name(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        find_kind(str(file))
    assert words in str(refusal.value)
    assert "slow.toml" in str(refusal.value)


def test_an_unknown_kind_is_refused_with_the_kinds() -> None:
    with pytest.raises(ConfigError, match=r"unknown kind; did you mean 'h100'.*a100-80gb"):
        find_kind("h10")
