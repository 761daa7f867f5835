"""Work that cannot fit is refused at its start, with the figures; `--force` starts it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.cli import main
from pellucid.counting import MemoryEstimate, MemoryRow, choose_kernel
from pellucid.errors import CheckpointError, RunError
from pellucid.free_memory import Free, forcing
from pellucid.generation import Beams, Sampling
from pellucid.presets import PRESETS
from pellucid.runs.plan import plan_run
from pellucid.saved_runs import memory_check
from support import published
from support.tiny import TINY, write_text

NEEDS = MemoryEstimate(
    (
        MemoryRow("process", 7, "as it is"),
        MemoryRow("weights", 200, "", "model.d_model"),
        MemoryRow("activations", 800, "", "training.batch_size"),
    )
)


@pytest.fixture
def has_free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the machine have so many bytes free."""

    def set_to(n_bytes: int) -> None:
        monkeypatch.setattr(memory_check, "free_memory", lambda: Free(n_bytes, "this machine"))

    return set_to


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    return write_text(tmp_path / "text")


@pytest.fixture(scope="module")
def run(trained: Path) -> runs.Run:
    return runs.load(trained)


def test_what_fits_is_let_through_in_silence(
    has_free: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    has_free(1150)
    memory_check.check_memory(NEEDS, "this needs")
    assert not caplog.records


@pytest.mark.parametrize("free", [1149, 850])
def test_what_may_not_fit_is_warned_of(
    has_free: Callable[[int], None], caplog: pytest.LogCaptureFixture, free: int
) -> None:
    has_free(free)
    with caplog.at_level(logging.WARNING):
        memory_check.check_memory(NEEDS, "this needs")
    (record,) = caplog.records
    assert "it may not fit" in record.getMessage()


def test_what_cannot_fit_is_refused_with_the_figures_and_what_to_lower(
    has_free: Callable[[int], None],
) -> None:
    has_free(849)
    with pytest.raises(RunError) as refusal:
        memory_check.check_memory(NEEDS, "this needs")
    assert str(refusal.value) == (
        "this needs about 1 kB of memory more, and this machine has 849 B free; most of it, 800 B, "
        "is activations: lower training.batch_size; --force (force=True) continues all the same"
    )


def test_force_goes_on_with_a_warning(
    has_free: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    has_free(1)
    memory_check.check_memory(NEEDS, "this needs", force=True)
    assert len(caplog.records) == 1


def test_a_machine_that_says_nothing_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "free_memory", lambda: None)
    memory_check.check_memory(NEEDS, "this needs")


@pytest.mark.parametrize(
    ("setting", "lower"),
    [
        ("training.batch_size=1048576", "training.batch_size"),
        ("model.decoder.n_layers=10000", "the number of layers"),
        ("model.context_length=16000000", "model.context_length"),
        ("text.tokenizer.vocab_size=4194304", "model.vocab_size"),
    ],
)
def test_a_training_that_cannot_fit_is_refused_before_anything_is_read(
    has_free: Callable[[int], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    lower: str,
) -> None:
    has_free(10**9)
    missing = tmp_path / "is not there.txt"
    assert main(["train", str(missing), "--out", str(tmp_path / "run"), "--set", setting]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "this training needs about" in error
    assert lower in error.partition(": lower ")[2]
    assert not (tmp_path / "run").exists()


def test_a_training_is_refused_and_with_force_it_is_done(
    has_free: Callable[[int], None], tmp_path: Path, text_file: Path
) -> None:
    has_free(10**6)
    options: dict[str, Any] = {
        "steps": 2,
        "settings": [*TINY, "text.held_out=0.2"],
        "show": False,
        "out": tmp_path / "run",
    }
    with pytest.raises(RunError, match="this training needs about"):
        pellucid.train([text_file], **options)
    assert not (tmp_path / "run").exists()
    forced_run = pellucid.train([text_file], **options, force=True)
    assert forced_run.checkpoint.name == "step-2"


def test_beams_texts_and_length_are_bounded(run: runs.Run, has_free: Callable[[int], None]) -> None:
    has_free(10**8)
    runs.generate(run, "a", Sampling(max_new_tokens=2))
    with pytest.raises(RunError, match=r"writing this needs about .* lower --beams"):
        runs.beam_search(run, "a", Beams(n_beams=99_999, max_new_tokens=2))
    with pytest.raises(RunError, match=r"writing this needs about .* lower --max-new-tokens"):
        runs.generate(run, "a", Sampling(max_new_tokens=10**12))
    beams_found = runs.beam_search(run, "a", Beams(n_beams=2, max_new_tokens=1), force=True)
    assert len(beams_found) == 1


def test_embedding_evaluating_and_looking_inside_are_bounded(
    run: runs.Run, has_free: Callable[[int], None], text_file: Path
) -> None:
    has_free(100)
    with pytest.raises(RunError, match=r"reading this needs about .* lower batch_size"):
        runs.embed(run, ["some text"])
    with pytest.raises(RunError, match="reading this needs about"):
        runs.evaluate(run, [str(text_file)])
    with pytest.raises(RunError, match=r"looking into it needs .* the length of the sentence"):
        pellucid.trace(run, "some text")
    assert runs.embed(run, ["some text"], force=True).shape[0] == 1
    assert pellucid.trace(run, "some text", force=True).sentence.text == "some text"


def test_distilling_from_what_does_not_fit_is_refused(
    trained: Path,
    tmp_path: Path,
    text_file: Path,
    has_free: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    has_free(10**6)
    words = ["distill", str(trained), str(text_file), "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "this training needs about" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_published_model_that_does_not_fit_is_refused_before_it_is_built(
    tmp_path: Path, has_free: Callable[[int], None]
) -> None:
    published.write(tmp_path / "published")
    has_free(1000)
    with pytest.raises(RunError, match=r"this model needs about .* is weights"):
        runs.import_model(tmp_path / "published", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    runs.import_model(tmp_path / "published", tmp_path / "run", force=True)


def test_a_published_config_of_ten_thousand_layers_is_refused_by_its_header(tmp_path: Path) -> None:
    published.write(tmp_path / "published")
    published.change(tmp_path / "published", num_hidden_layers=10_000)
    with pytest.raises(CheckpointError, match="describes 10,000 layers, but the files have"):
        runs.import_model(tmp_path / "published", tmp_path / "run", force=True)


@pytest.mark.parametrize("rows", [2, 64])
def test_the_counted_kernel_is_the_one_that_is_chosen(rows: int) -> None:
    nano = PRESETS["nano"]
    model = replace(nano.model, vocab_size=300)
    for precision in ("float32", "bfloat16"):
        training = replace(nano.training, batch_size=rows, accumulation=1, precision=precision)
        plan = plan_run(
            replace(nano, model=model, training=training), torch.device("cpu"), compiler=None
        )
        assert choose_kernel(model, precision, sequences=rows) == plan.attention


def test_a_run_that_does_not_fit_is_not_opened(
    trained: Path, tmp_path: Path, has_free: Callable[[int], None]
) -> None:
    published.write(tmp_path / "published")
    has_free(1000)
    for path in (trained, trained / "checkpoints" / "step-12", tmp_path / "published"):
        with pytest.raises(RunError, match=r"this model needs about .* is weights"):
            runs.load(path)
        assert runs.load(path, force=True).folder.exists()


def test_what_is_forced_is_forced_however_deep(
    trained: Path, has_free: Callable[[int], None]
) -> None:
    has_free(1000)
    with forcing(True), forcing(False):
        runs.score(runs.load(trained), "the")
    with pytest.raises(RunError, match="this model needs about"):
        runs.load(trained)


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "RUN", "the", "--max-new-tokens", "1"],
        ["score", "RUN", "the fox"],
        ["score", "RUN", "the fox", "--next"],
        ["evaluate", "RUN"],
        ["embed", "RUN", "the fox"],
        ["explain", "RUN", "the fox"],
    ],
    ids=" ".join,
)
def test_every_verb_that_opens_a_run_refuses_what_does_not_fit_and_takes_force(
    words: list[str],
    trained: Path,
    has_free: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    has_free(1000)
    words = [str(trained) if word == "RUN" else word for word in words]
    assert main(words) == 2
    assert "needs about" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_a_page_a_check_an_export_and_a_proof_of_resuming_are_refused_too(
    trained: Path,
    tmp_path: Path,
    has_free: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    has_free(1000)
    run = str(trained)
    export = ["export", run, str(tmp_path / "out")]
    proofs = ["verify-resume", run], ["verify-resume", run, "--kills", "1"]
    for words in (["serve", run], ["check", run], export, *proofs):
        assert main(words) == 2
        assert "needs about" in capsys.readouterr().err


def test_scoring_and_held_out_text_are_bounded(
    run: runs.Run, has_free: Callable[[int], None]
) -> None:
    has_free(100)
    with pytest.raises(RunError, match=r"reading this needs .* the length of the text"):
        runs.score(run, "the fox")
    with pytest.raises(RunError, match=r"reading this needs .* the length of the text"):
        runs.next_token(run, "the fox")
    with pytest.raises(RunError, match="reading this needs about"):
        runs.evaluate_held_out(run)
    assert runs.score(run, "the fox", force=True).tokens
    assert runs.evaluate_held_out(run, force=True).loss_nats > 0


_PEAK = """
import sys
from pellucid.free_memory import keep_freed_memory
keep_freed_memory()
import pellucid
said = []
pellucid.train(
    [sys.argv[1]], steps=2, out=sys.argv[2], show=False, observers=[said.append],
    settings=["text.tokenizer.kind=Bytes", "training.evaluate_tokens=512",
              "model.context_length=128", "training.batch_size=16", "model.d_model=192",
              "model.decoder.attention.n_heads=3", "model.decoder.attention.n_kv_heads=3",
              "training.precision=float32",
              "text.held_out=0.3"],
)
(started,) = [event for event in said if type(event).__name__ == "Started"]
print(dict(started.facts)["expect"])
with open("/proc/self/status") as file:
    print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
"""


# its fixed sample is tests/counting/test_peak.py: the same bound, against recorded peaks
@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from Linux")
def test_the_peak_of_a_small_run_is_within_15_percent_of_what_is_expected(
    tmp_path: Path, text_file: Path
) -> None:
    process = subprocess.run(
        [sys.executable, "-P", "-c", _PEAK, str(text_file), str(tmp_path / "run")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    expect, peak = process.stdout.splitlines()
    expected = float(expect.split(", ")[1].split()[0]) * 1e6
    assert expected == pytest.approx(int(peak) * 1024, rel=0.15)
