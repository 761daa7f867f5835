"""A run from Python: trained, loaded, evaluated, counted in minutes, compiled or not."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeGuard

import numpy as np
import pytest
import tomli_w
import torch
from torch.nn import functional as F

import pellucid
from pellucid import config
from pellucid.checkpoints import load_model_tensors
from pellucid.config import encode
from pellucid.errors import CheckpointError, ConfigError, RunError
from pellucid.evaluation.held_out_text import evaluate_tokens
from pellucid.free_memory import forcing
from pellucid.optim import Gate, Optimiser
from pellucid.presets import find
from pellucid.runs import RunFolder, attach, plan, read_events
from pellucid.runs.plan import StepSeconds, count_steps
from pellucid.saved_runs.load import fill, read_plan
from pellucid.saved_runs.machine import find_device
from pellucid.saved_runs.replans import total_steps
from pellucid.training import Evaluated, Started
from support.tiny import TINY, train_tiny, write_text


def test_load_gives_a_model_and_a_tokenizer(trained: Path) -> None:
    run = pellucid.load(trained)
    model, tokenizer = pellucid.load(trained)
    ids = torch.tensor([[tokenizer.begin_id, *tokenizer.encode("the cat")]])
    logits = model(ids)
    assert logits.shape == (1, 8, tokenizer.vocab_size)
    assert torch.equal(logits, run.model(ids))
    assert not model.training
    assert run.config.model.vocab_size == tokenizer.vocab_size == 258


def test_load_takes_one_checkpoint_too(trained: Path) -> None:
    run = pellucid.load(trained / "checkpoints" / "step-8")
    tensors = load_model_tensors(trained / "checkpoints" / "step-8")
    assert all(torch.equal(p, tensors[n]) for n, p in run.model.named_parameters())


def test_load_refuses_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        pellucid.load(tmp_path / "none")
    with pytest.raises(RunError, match="is not a run"):
        pellucid.load(tmp_path)


def test_tensors_that_do_not_fit_are_named(trained: Path) -> None:
    run = pellucid.load(trained)
    tensors = dict(run.model.named_parameters())
    cpu = torch.device("cpu")
    too_few = {n: t for n, t in tensors.items() if n != "decoder.final_norm.gain"}
    with pytest.raises(CheckpointError, match=r"missing \['decoder.final_norm.gain'\]"):
        fill(run.model, too_few, cpu)
    with pytest.raises(CheckpointError, match=r"not expected \['x'\]"):
        fill(run.model, tensors | {"x": torch.ones(1)}, cpu)
    with pytest.raises(CheckpointError, match=r"final_norm.gain is \(3,\).*\(16,\)"):
        fill(run.model, tensors | {"decoder.final_norm.gain": torch.ones(3)}, cpu)


def test_evaluation_is_the_mean_over_every_token_after_the_first(trained: Path) -> None:
    run = pellucid.load(trained)
    tokens = np.asarray(run.tokenizer.encode_document("the lazy dog sat on the brown fox. " * 3))
    result = evaluate_tokens(run.model, tokens, n_bytes=105, batch_size=3)
    total = 0.0
    for start in range(0, len(tokens) - 1, 16):
        part = torch.from_numpy(tokens[start : start + 17])
        with torch.no_grad():
            logits = run.model(part[None, :-1])[0]
        total += F.cross_entropy(logits, part[1:], reduction="sum").item()
    assert result.loss_nats == pytest.approx(total / (len(tokens) - 1), rel=1e-5)
    assert result.bits_per_byte == pytest.approx(total / math.log(2) / 105, rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(result.loss_nats))


def test_evaluate_reads_files(trained: Path, tmp_path: Path) -> None:
    run = pellucid.load(trained)
    file = write_text(tmp_path)
    result = pellucid.evaluate(run, [str(file)])
    assert result.n_bytes == len(file.read_bytes())
    assert result.bits_per_byte < 8


def test_generate_from_python(trained: Path) -> None:
    run = pellucid.load(trained)
    (generated,) = pellucid.generate(run, "the ")
    assert len(generated.ids) <= 200
    assert generated.text == run.tokenizer.decode(generated.ids)


def test_attach_shows_a_finished_run_and_ends(trained: Path) -> None:
    folder = RunFolder(trained)
    assert list(attach(folder)) == read_events(folder.metrics)


def test_attach_follows_a_run_while_it_is_written(trained: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from support.tiny import train_tiny\n"
        "train_tiny(Path(sys.argv[1]), steps=60)"
    )
    tests = Path(__file__).parents[1]
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", code, str(run), str(tests)])
    while not (run / "metrics.jsonl").is_file():
        assert process.poll() is None
    events = list(attach(RunFolder(run), poll_seconds=0.02))
    assert process.wait(timeout=60) == 0
    assert events == read_events(RunFolder(run).metrics)
    assert type(events[-1]).__name__ == "Finished"


def test_settings_files_and_arguments_are_laid_over_each_other(tmp_path: Path) -> None:
    from pellucid.runs.resolve_config import resolve_config

    file = tmp_path / "small.toml"
    file.write_text('base = "gpt2"\nseed = 5\n[model]\nd_model = 96\n')
    run = resolve_config(
        ["a.txt"], config_file=file, steps=7, settings=["model.decoder.n_layers=3"]
    )
    assert run.model.d_model == 96
    assert run.model.decoder.n_layers == 3
    assert run.seed == 5
    assert run.training.budget == config.Steps(count=7)
    assert run.text.corpus == config.Files(paths=("a.txt",))
    assert resolve_config(seed=9, config_file=file).seed == 9
    with pytest.raises(ConfigError, match="give one of them"):
        resolve_config(steps=1, minutes=1)


@pytest.mark.parametrize("name", ["bert-base", "t5-small", "gpt2"])
def test_the_config_of_a_run_stands_by_itself(tmp_path: Path, name: str) -> None:
    from pellucid.config import run_to_toml
    from pellucid.runs.resolve_config import resolve_config

    file = tmp_path / "config.toml"
    file.write_text(run_to_toml(find(name)))
    assert resolve_config(config_file=file) == find(name)


def test_an_encoder_alone_is_laid_over_a_decoder_by_saying_so(tmp_path: Path) -> None:
    from pellucid.runs.resolve_config import resolve_config

    nano = find("nano")
    encoder = '[model]\ndecoder = "none"\n' + tomli_w.dumps(
        {"model": {"encoder": encode(nano.model.decoder)}}
    ).replace("[model]\n", "")
    file = tmp_path / "encoder.toml"
    file.write_text(encoder)
    assert resolve_config(config_file=file).model.stacks == (nano.model.decoder,)
    file.write_text(encoder.replace('decoder = "none"\n', ""))
    with pytest.raises(ConfigError, match='decoder = "none"'):
        resolve_config(config_file=file)


def test_a_budget_in_tokens_epochs_or_minutes_becomes_steps() -> None:
    settings = find("nano").training
    per_step = settings.batch_size * 64

    def steps(budget: config.Budget) -> int:
        return count_steps(
            replace(settings, budget=budget),
            rows_per_epoch=20 * settings.batch_size,
            tokens_per_row=64,
            seconds_per_step=0.5,
        )

    assert steps(config.Steps(count=7)) == 7
    assert steps(config.Epochs(count=1.5)) == 30
    assert steps(config.Tokens(count=per_step * 3 + 1)) == 4
    assert steps(config.Minutes(count=2)) == pytest.approx(240, rel=0.2)


def test_a_batch_that_grows_has_more_updates_for_as_many_rows() -> None:
    settings = replace(find("nano").training, batch_size=8)

    def steps(budget: config.Budget) -> int:
        growth = config.GrowingBatch(first=2, until=0.5)  # 2 and 4 rows for a quarter each
        return count_steps(
            replace(settings, budget=budget, growth=growth),
            rows_per_epoch=5 * 100,
            tokens_per_row=64,
            seconds_per_step=0.5,
        )

    mean_rows = 5.5  # rows an update, in the mean
    assert steps(config.Steps(count=7)) == 7
    assert steps(config.Epochs(count=1.1)) == 100
    assert steps(config.Tokens(count=int(mean_rows * 64 * 100))) == 100
    assert steps(config.Minutes(count=1)) == int(60 * 0.85 / (0.5 * mean_rows / 8))


def test_minutes_from_python(tmp_path: Path) -> None:
    pellucid.train(
        [write_text(tmp_path / "text")],
        out=tmp_path / "run",
        minutes=0.005,
        settings=[*TINY, "text.held_out=0.2"],
        show=False,
    )
    folder = RunFolder(tmp_path / "run")
    plan = read_plan(folder)
    assert plan.total_steps >= 1
    # planned again while it trained
    assert folder.shelf.latest().name == f"step-{total_steps(folder, plan)}"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each update of a run, as they come, whether its gate was closed."""
    closed = list[bool]()
    step = Optimiser.step

    def watched(self: Optimiser, gate: Gate, factor: float) -> None:
        closed.append(bool(gate.blocked))
        step(self, gate, factor)

    monkeypatch.setattr(Optimiser, "step", watched)
    return closed


@pytest.mark.parametrize("compiled", [False, True])
def test_a_slow_first_update_is_timed_again_where_it_waited_for_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[bool], compiled: bool
) -> None:
    # of the clock: before and after the batch and the first update, and all that follow
    seconds = chain([0.0, 0.0, 0.0, 100.0], count(100.0, 0.25))
    monkeypatch.setattr(plan, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    monkeypatch.setattr(plan, "compiler_problem", lambda _: None)
    monkeypatch.setattr(plan, "compile_blocks", lambda _: None)
    compile_setting = "on" if compiled else "off"
    train_tiny(tmp_path / "run", steps=1, settings=[f"training.compile={compile_setting}"])
    assert steps == [True] * (4 if compiled else 1) + [False]


@pytest.mark.parametrize("choice", ["on", "all"])
def test_the_loss_of_a_run_is_compiled_if_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    calls: list[int] = []
    loss = import_module("pellucid.objectives.compiled_errors")

    def compiled() -> Any:
        calls.append(1)
        return loss.fused_errors

    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    monkeypatch.setattr(plan, "compiler_problem", lambda _: None)
    monkeypatch.setattr(plan, "compile_blocks", lambda _: None)
    monkeypatch.setattr(loss, "_compiled", compiled)
    losses: dict[str, list[float]] = {choice: [], "off": []}

    def listen(name: str) -> Any:
        return lambda event: losses[name].extend(getattr(event, "losses", ()))

    for name in losses:
        settings = [f"training.compile={name}"]
        train_tiny(tmp_path / name, steps=2, settings=settings, observers=[listen(name)])
        assert bool(calls) == (choice == "all")
    assert losses[choice] == pytest.approx(losses["off"], abs=1e-5)
    assert losses["off"]
    saved = json.loads((tmp_path / choice / "plan.json").read_text(encoding="utf-8"))
    assert saved["compile_loss"] == (choice == "all")


def test_updates_are_timed_with_their_optimiser_and_move_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[bool]
) -> None:
    train_tiny(tmp_path / "run", steps=1)
    assert steps == [*[True] * 4, False]
    monkeypatch.setattr(
        import_module("pellucid.runs.train"), "measure_step", lambda *_: StepSeconds(1.0, 1.0)
    )
    train_tiny(tmp_path / "untimed", steps=1)
    timed, untimed = (
        load_model_tensors(RunFolder(tmp_path / name).shelf.latest()) for name in ("run", "untimed")
    )
    assert timed.keys() == untimed.keys()
    assert all(torch.equal(weight, untimed[name]) for name, weight in timed.items())


def test_a_run_by_minutes_loses_no_time_with_updates_that_are_only_timed(
    tmp_path: Path, steps: list[bool]
) -> None:
    text = [write_text(tmp_path / "text")]
    settings = [*TINY, "text.held_out=0.2"]
    pellucid.train(text, out=tmp_path / "run", minutes=0.005, settings=settings, show=False)
    assert steps
    assert not any(steps)
    assert 0 < json.loads((tmp_path / "run" / "plan.json").read_text())["total_steps"] < 10**5


def test_a_vocabulary_larger_than_the_tokenizer_is_kept_and_a_smaller_refused(
    tmp_path: Path,
) -> None:
    train_tiny(tmp_path / "run", steps=1, settings=["model.vocab_size=300"])
    assert pellucid.load(tmp_path / "run").model.head_weight.shape[0] == 300
    with pytest.raises(ConfigError, match=r"vocab_size is 100.*258 tokens"):
        train_tiny(tmp_path / "small", steps=1, settings=["model.vocab_size=100"])
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("name", ["cuda:7", "abacus"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no '{name}'"):
        find_device(name)


def test_without_a_compiler_it_says_so_and_runs_eager(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from support.tiny import train_tiny\n"
        "train_tiny(Path(sys.argv[1]), steps=2, settings=['training.compile=on'])"
    )
    tests = Path(__file__).parents[1]
    # no compiler on the path, none named, none kept from before
    environment = {k: v for k, v in os.environ.items() if k not in ("CXX", "CC")}
    environment |= {"PATH": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run"), str(tests)],
        env=environment,
        check=True,
        timeout=120,
    )
    events = read_events(RunFolder(tmp_path / "run").metrics)
    started = next(e for e in events if isinstance(e, Started))
    assert "not compiled (" in dict(started.facts)["on"]
    assert '"compile": false' in (tmp_path / "run" / "plan.json").read_text()


def test_too_little_memory_is_one_paragraph_with_what_to_do(tmp_path: Path) -> None:
    # more than a machine holds, refused by the allocator at once where it is forced
    wide = ["model.decoder.feed_forward.d_ff=1048576", "model.decoder.n_layers=10000"]
    wide += ["model.d_model=262144"]
    memory = pytest.raises(RunError, match=r"memory does not hold.*training\.accumulation=4")
    with forcing(True), memory:
        train_tiny(tmp_path / "run", settings=wide)
    assert not (tmp_path / "run").exists()


COMPILED = """
import sys; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from pellucid import runs
from support.tiny import train_tiny
folder = Path(sys.argv[1])
train_tiny(folder / "eager")
train_tiny(folder / "compiled", settings=["training.compile=on"])
train_tiny(folder / "resumed", settings=["training.compile=on"])
runs.resume(folder / "resumed" / "checkpoints" / "step-8", show=False)
"""


@pytest.mark.slow
def test_compiled_training_learns_the_same_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    # in a process of its own: shapes checked at run time and warnings as errors stop the compiler
    tests = Path(__file__).parents[1]
    words = [sys.executable, "-c", COMPILED, str(tmp_path), str(tests)]
    subprocess.run(words, check=True, timeout=600)
    plan = json.loads((tmp_path / "compiled" / "plan.json").read_text())
    if not plan["compile"]:
        pytest.skip(
            "torch.compile does not work here: it needs a C++ compiler and Python's headers"
        )
    compiled, resumed = (
        load_model_tensors(RunFolder(tmp_path / name).shelf.latest())
        for name in ("compiled", "resumed")
    )
    assert all(torch.equal(compiled[name], resumed[name]) for name in compiled)
    # dropout draws other numbers when compiled, so only the losses can be compared
    ends = [
        [e.loss_nats for e in read_events(RunFolder(tmp_path / name).metrics) if is_evaluated(e)]
        for name in ("eager", "compiled")
    ]
    assert ends[1][0] == pytest.approx(ends[0][0], rel=1e-3)
    assert ends[1][-1] == pytest.approx(ends[0][-1], rel=0.15)


def is_evaluated(event: object) -> TypeGuard[Evaluated]:
    return isinstance(event, Evaluated)
