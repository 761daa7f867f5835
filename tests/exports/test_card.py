"""The model card: data by name and checksum, losses with intervals, and no path of this machine."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import pellucid
from pellucid import runs
from pellucid.evaluation.objective import standard_error
from pellucid.exports.card.recipe import table
from pellucid.exports.card.results import time_section
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.records import read_events
from pellucid.training import events
from support.exported import small_preset, untrained
from support.tiny import TINY, write_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("secret-place")
    file = write_text(place / "data")
    pellucid.train(
        [file], out=place / "run", steps=8, settings=[*TINY, "text.held_out=0.2"], show=False
    )
    return place / "run"


@pytest.fixture(scope="module")
def card(run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("out") / "my-model"
    runs.export_run(run, folder)
    return (folder / "README.md").read_text(encoding="utf-8")


def test_the_card_names_data_by_file_and_checksum_and_never_by_path(card: str, run: Path) -> None:
    file = run.parent / "data" / "text.txt"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert f"| text.txt | `{digest}` |" in card
    assert "secret-place" not in card
    assert str(run.parent) not in card


def test_the_card_has_the_losses_of_the_record_with_intervals(card: str, run: Path) -> None:
    happened = read_events(run / "metrics.jsonl")
    latest = [e for e in happened if isinstance(e, events.Evaluated)][-1]
    assert latest.standard_error is not None
    assert latest.standard_error > 0
    loss_text = f"{latest.loss_nats:.4g} ± {1.96 * latest.standard_error:.2g}"
    assert f"| held-out loss, nats | {loss_text} |" in card


def test_the_card_has_every_section(card: str) -> None:
    titles = re.findall(r"^## (.+)$", card, flags=re.MULTILINE)
    assert titles == [
        "How to load it", "Data", "Recipe", "Results", "Vital signs", "Time", "Licence",
    ]  # fmt: skip
    assert card.startswith("---\nlicense: other  # to fill in\n")
    assert "| optimiser.learning_rate | 0.03 |" in card
    assert "# my-model" in card


@pytest.mark.parametrize(
    ("joules", "sentence"),
    [
        (None, "The machine reported no energy."),
        (7200.0, "Meanwhile the machine used 7.2 kJ (2 Wh), other programs included."),
    ],
)
def test_the_card_has_the_energy_that_the_machine_reported(
    joules: float | None, sentence: str, run: Path
) -> None:
    finished = events.Finished(step=3, seconds=60.0, joules=joules)
    assert sentence in time_section([finished], RunFolder(run))


def test_weights_that_were_imported_have_no_recipe(tmp_path: Path) -> None:
    untrained(tmp_path / "run", small_preset("nano"))
    runs.export_run(tmp_path / "run", tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "## Recipe" not in text
    assert "not known here" in text


def test_a_cell_cannot_break_its_table() -> None:
    assert table(("a",), [("x|y\nz",)]).splitlines()[-1] == "| x\\|y z |"


def test_the_standard_error_is_that_of_a_mean_over_equal_parts() -> None:
    # four parts of two terms: means 1, 2, 3, 4
    error = standard_error([2.0, 4.0, 6.0, 8.0], [2, 2, 2, 2])
    assert error == pytest.approx((5 / 3 / 4) ** 0.5)
    assert standard_error([2.0], [2]) is None
