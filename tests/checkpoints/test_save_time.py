"""To save takes as long as a small write, for as many bytes and files as a checkpoint has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pellucid.checkpoints import Checkpoint, save_time, seconds_to_save


def of_size(n_bytes: int) -> Checkpoint:
    return Checkpoint(
        model={"weight": torch.zeros(n_bytes // 4)}, optimiser={}, random={}, state={}
    )


@pytest.mark.parametrize(("n_bytes", "expected"), [(2**20, 1.0), (2**26, 64.0)])
def test_bytes_and_files_count(
    n_bytes: int, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that writes 1 MiB a second and waits half a second for each file."""
    monkeypatch.setattr(save_time, "_time_write", lambda _, content: 0.5 + len(content) / 2**20)
    assert seconds_to_save(tmp_path, of_size(n_bytes)) == pytest.approx(8 * 0.5 + expected)


def test_a_checkpoint_of_nothing_takes_the_time_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save_time, "_time_write", lambda _, content: 0.25)
    assert seconds_to_save(tmp_path, of_size(0)) == 2.0


def test_nothing_is_left_behind_and_a_folder_that_is_not_there_takes_no_time(
    tmp_path: Path,
) -> None:
    assert seconds_to_save(tmp_path, of_size(2**12)) > 0
    assert list(tmp_path.iterdir()) == []
    assert seconds_to_save(tmp_path / "missing", of_size(2**12)) == 0
