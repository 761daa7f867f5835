"""A comparison that was trained once, and the files of its variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.lab import Comparison, compare
from support.tiny import TINY, write_text

SETTINGS = [*TINY, "text.held_out=0.2", "model.decoder.n_layers=1", "training.checkpoint_every=99"]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two variants and a text."""
    folder = tmp_path_factory.mktemp("lab")
    write_text(folder)
    slow = "[optimiser]\nkind = 'SGD'\nlearning_rate = 1e-5\nmomentum = 0.0\nl2 = 0.0\n"
    (folder / "slow.toml").write_text(slow)
    (folder / "fast.toml").write_text(slow.replace("1e-5", "0.5"))
    return folder


@pytest.fixture(scope="session")
def compared(place: Path) -> Comparison:
    """Two variants with three seeds, six updates each."""
    return compare(
        [place / "slow.toml", place / "fast.toml"],
        place / "text.txt",
        seeds=3,
        steps=6,
        settings=SETTINGS,
        out=place / "out",
        notify=lambda line: None,
    )
