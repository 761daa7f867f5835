"""What a notebook shows of a run and of a config."""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pellucid
import pellucid.web.notebook
from pellucid.counting import parameter_count
from pellucid.display.numbers import short
from pellucid.presets import find
from pellucid.report.card import config_table, nearest_preset, run_card


def test_a_run_is_a_line_and_in_a_notebook_a_card(trained: Path) -> None:
    run = pellucid.load(trained)
    size = short(parameter_count(run.config.model))
    assert repr(run) == f"Run('{trained}', {size} parameters, {run.checkpoint.name})"
    card = run_card(run)
    assert "best held-out" in card
    assert card.count("<svg") == 1
    assert f"pellucid explain {trained} &quot;your text&quot;" in card
    html_card: Any = getattr(run, "_repr_html_")()  # noqa: B009
    assert html_card is not None
    assert html.unescape(html_card).count(card.splitlines()[0]) == 1


def test_a_run_without_events_has_a_card_of_its_size(trained: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(trained, tmp_path / "bare")
    (copy / "metrics.jsonl").unlink()
    card = run_card(pellucid.load(copy))
    assert "parameters" in card
    assert "<svg" not in card


def test_a_config_is_a_table_of_what_differs_from_its_preset() -> None:
    nano = find("nano")
    assert nearest_preset(nano) == ("nano", {})
    changed_run = replace(nano, seed=7)
    assert nearest_preset(changed_run) == ("nano", {"seed": (nano.seed, 7)})
    table = config_table(changed_run)
    assert "differs from the preset nano in 1" in table
    assert "<b>7</b>" in table


def test_outside_a_notebook_loading_a_run_does_not_load_the_page() -> None:
    code = "import pellucid, sys; pellucid.load; print('pellucid.web' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "False"
