"""The default run as a newcomer starts it: minutes long, so apart from the other tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid
from pellucid.data import split, standard_library_docs
from pellucid.presets import find
from pellucid.runs import RunFolder, verify_resume
from support.ngram import held_out_bits_per_byte

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def default_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """`pellucid train`, no flag but for the folder, and what it reported."""
    folder = tmp_path_factory.mktemp("default") / "run"
    process = subprocess.run(
        [sys.executable, "-m", "pellucid", "train", "--out", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return folder, json.loads(process.stdout)


def test_held_out_bits_per_byte_are_below_an_interpolated_five_gram(
    default_run: tuple[Path, dict[str, float]],
) -> None:
    folder, result = default_run
    run = pellucid.load(folder)
    parts = split(standard_library_docs(), find("nano").text.held_out)
    n_bytes = sum(len(document.text.encode()) for document in parts.held_out)
    # over bytes, and over the model's own tokens, which is the stronger of the two
    encoders = {
        "bytes": (lambda text: list(text.encode()), 256),
        "tokens": (run.tokenizer.encode, run.tokenizer.vocab_size),
    }
    for encode, vocab_size in encoders.values():
        bar = held_out_bits_per_byte(
            [encode(document.text) for document in parts.train],
            [encode(document.text) for document in parts.held_out],
            n_bytes,
            order=5,
            vocab_size=vocab_size,
        )
        assert result["held_out_bits_per_byte"] < bar - 0.2


def test_the_held_out_loss_it_reports_is_what_evaluate_measures(
    default_run: tuple[Path, dict[str, float]], tmp_path: Path
) -> None:
    folder, result = default_run
    parts = split(standard_library_docs(), find("nano").text.held_out)
    files = []
    for number, document in enumerate(parts.held_out):
        files.append(tmp_path / f"{number:03}.txt")
        files[-1].write_text(document.text, encoding="utf-8", newline="")
    measured = pellucid.evaluate(pellucid.load(folder), map(str, files))
    # the run measures in bfloat16 where the processor has it, evaluate in float32
    assert measured.bits_per_byte == pytest.approx(result["held_out_bits_per_byte"], rel=0.01)


def test_it_resumes_bit_for_bit(default_run: tuple[Path, dict[str, float]]) -> None:
    folder, _ = default_run
    assert verify_resume(folder, steps=10).is_equal


def test_its_sample_is_english(default_run: tuple[Path, dict[str, float]]) -> None:
    folder, result = default_run
    assert RunFolder(folder).shelf.latest().name == "step-1200"
    corpus_words = set("".join(d.text for d in standard_library_docs()).split())
    words = str(result["continuation"]).split()
    assert len(words) > 5
    assert sum(word in corpus_words for word in words) / len(words) > 0.7
