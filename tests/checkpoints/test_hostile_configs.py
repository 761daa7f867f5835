"""A config.json with a number beyond all reason or of another type is refused before a loop."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.checkpoints.huggingface import FAMILIES, open_published
from pellucid.checkpoints.huggingface.attributes import ANYWHERE
from pellucid.errors import PellucidError
from support.nightly import sampled
from support.published import write

VALUES: list[Any] = [
    10**9, 10**12, 2**63, 10**30, -1, 0, -(10**12), 1.5, 1e300, True, None, "16", "", [], [16], {},
    {"a": [1]}, ["x"] * 5,
]  # fmt: skip
_OTHERS = ("architectures", "model_type", "bos_token_id", "id2label", "pruned_heads", "dtype")


def attempts(family: str) -> list[tuple[str, Any]]:
    keys = [*FAMILIES[family].rules, *(name for name in _OTHERS if name in ANYWHERE)]
    return [(key, value) for key in keys for value in VALUES]


def attack(family: str, folder: Path, chosen: list[tuple[str, Any]]) -> int:
    """Each of these attributes alone in a config; how many were refused."""
    write(folder, family)
    file = folder / "config.json"
    attributes = json.loads(file.read_text())
    refused = longest = 0
    for key, value in chosen:
        file.write_text(json.dumps({**attributes, key: value}))
        start = time.process_time()
        try:
            open_published(folder)
        except PellucidError as refusal:
            refused += 1
            longest = max(longest, len(str(refusal)))
        except Exception as error:
            raise AssertionError(f"{family}: {key} = {value!r}") from error
        assert time.process_time() - start < 10, (key, value)
    assert longest < 700
    return refused


@pytest.mark.parametrize("family", sampled(FAMILIES))
def test_a_hostile_attribute_is_refused_or_means_nothing(family: str, tmp_path: Path) -> None:
    sample = random.Random(family).sample(attempts(family), 60)
    assert attack(family, tmp_path / "dir", sample) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_every_hostile_attribute_is_refused_or_means_nothing(family: str, tmp_path: Path) -> None:
    all_attempts = attempts(family)
    assert attack(family, tmp_path / "dir", all_attempts) > len(all_attempts) // 3
