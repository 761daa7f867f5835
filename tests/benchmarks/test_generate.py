"""Writing: the counts, the refusals, and the text of the table."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from support.published import write

ROOT = Path(__file__).parents[2]


def generate() -> Any:
    return importlib.import_module("benchmarks.generate")


def turn(wall: float, *, steps: int = 10) -> Any:
    seconds = {"wall": wall, "processor": wall, "prompt": 0.5}
    return importlib.import_module("benchmarks.workers").Turn(steps, wall, wall, 0, seconds)


def summary(turns: dict[str, list[Any]]) -> Any:
    bandwidth = {"best": 1000.0, "by_processor": 1000.0}
    return generate().summary(turns, dict.fromkeys(turns, "bfloat16"), 5, bandwidth)


def test_a_share_is_that_of_the_bytes_that_a_token_reads() -> None:
    row = summary({"pellucid, bfloat16": [turn(1.0), turn(2.0), turn(1.0)]})["pellucid, bfloat16"]
    assert row["tokens_per_second"] == pytest.approx(10)
    assert row["share_of_bandwidth"] == pytest.approx(5 * 2 * 10 / 1000)


def test_ratios_are_taken_round_by_round() -> None:
    turns = {"ours": [turn(1.0), turn(9.0)], "theirs": [turn(3.0), turn(27.0)]}
    summaries = summary(turns)
    assert summaries["ours"]["faster_than"]["theirs"]["wall"] == pytest.approx(3)
    assert summaries["theirs"]["faster_than"]["ours"]["wall"] == pytest.approx(1 / 3)


def test_a_time_lost_in_noise_is_said_and_not_divided_by() -> None:
    turns = {"ours": [turn(1.0), turn(1.0)], "tiny": [turn(1.0), turn(-0.1)]}
    results = {
        "summary": summary(turns),
        "turns": turns,
        "said": "a shape",
        "bytes_per_second": {"best": 1e9},
        "same_first_tokens": {},
        "command": "benchmarks.generate",
        "date": "2026-01-01",
        "commit": "abc",
        "threads": 1,
        "load_before": 0.1,
        "versions": {"torch": "2"},
        "machine": importlib.import_module("benchmarks.machine").machine(),
    }
    assert list(results["summary"]) == ["ours"]
    assert generate().table(results).endswith("Lost in noise (more --new-tokens would tell): tiny.")


def test_models_that_write_otherwise_are_not_compared() -> None:
    ids = {"Hugging Face, float32": [1, 2], "pellucid, float32": [1, 3]}
    with pytest.raises(SystemExit, match=r"no parity: .* \[1, 2\] and pellucid, float32 \[1, 3\]"):
        generate().check_parity(ids)
    ids = {"pellucid, int8": [1], "pellucid without compiled code, int8": [2]}
    with pytest.raises(SystemExit, match="no parity"):
        generate().check_parity(ids)


def test_agreement_counts_the_first_tokens_that_are_alike() -> None:
    ids = {"pellucid, float32": [1, 2, 3], "peer": [1, 2, 4], "own weights": [9, 9, 9]}
    assert generate().agreement(ids, {"peer"}) == {"peer": 2}


def test_llama_cpp_is_left_out_in_words_where_it_is_not_built(tmp_path: Path) -> None:
    place_of = importlib.import_module("benchmarks.llama_cpp").place_of
    assert "there is no built libllama in" in place_of(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "libllama.so").touch()
    assert "there is no llama.h in" in place_of(tmp_path)
    for header in ("include/llama.h", "ggml/include/ggml-backend.h"):
        (tmp_path / header).parent.mkdir(parents=True)
        (tmp_path / header).touch()
    place = place_of(tmp_path)
    assert place.library == tmp_path / "build" / "libllama.so"
    assert place.headers == (tmp_path / "ggml" / "include", tmp_path / "include")


def test_results_of_the_binding_are_not_taken_for_those_of_c() -> None:
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert "| llama.cpp through its Python binding, float32 |" in text
    assert "| llama.cpp, float32 |" not in text


def test_every_ratio_of_the_short_table_stands_in_the_table_of_its_benchmark() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    short = page.partition("## In one table")[2].partition("\n## ")[0]
    ratios = re.findall(r"\d\.\d\d \(\d\.\d\d to \d\.\d\d", short)
    assert len(ratios) >= 8
    missing = [ratio for ratio in ratios if f"{ratio};" not in page]
    # of writing, whose table has no ranges
    assert missing == ["2.58 (2.40 to 3.55", "2.99 (0.96 to 3.75"]


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_pellucid_is_measured_with_the_model_that_its_command_opens(
    tmp_path: Path, weights: str
) -> None:
    write(tmp_path / "dir", "gpt2")
    made_by = importlib.import_module("benchmarks.generate_pellucid").pellucid
    contestant = made_by(
        folder=str(tmp_path / "dir"), prompt=[1, 2, 3], weights=weights, native=True, device="cpu"
    )
    assert len(contestant.facts["ids"]) > 1
    assert {*contestant(1)} == {"wall", "processor", "prompt"}
