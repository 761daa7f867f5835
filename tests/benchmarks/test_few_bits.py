"""The benchmark of few bits runs on a tiny model and fills every column."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import few_bits
from support.published import write


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak as Linux tells it")
def test_every_type_has_memory_times_and_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "dir", "llama")
    text = tmp_path / "text.txt"
    text.write_text("a text that the model has not seen " * 9)
    monkeypatch.setattr(few_bits, "TYPES", ("int4",))
    words = [str(tmp_path / "dir"), "--text", str(text), "--turns", "1"]
    arguments = few_bits.flags().parse_args([*words, "--prompt", "8", "--new-tokens", "4"])
    arguments.calibrate = str(text)
    readings = few_bits.measure(arguments)
    assert list(readings) == ["int4", few_bits.CALIBRATED]
    for row in readings.values():
        assert len(row["starts"]) == 2
        assert all(0 < start["anonymous_mb"] < start["peak_mb"] for start in row["starts"])
        assert row["bits_per_byte"] > 1
        assert len(row["turns"]) == 1
    lines = few_bits.table(readings).splitlines()
    assert len(lines) == 4
    assert "not measured" not in lines[-1]
