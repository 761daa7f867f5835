"""Variants are compared on equal terms, by runs that are trained once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid import config
from pellucid.cli import main
from pellucid.errors import ConfigError, Interrupted, RunError
from pellucid.lab import Comparison, Variant, compare, design, paired_difference
from pellucid.lab.comparison import corpus_digest
from pellucid.lab.files import comparison_facts, write_tables
from pellucid.lab.flops import training_flops
from pellucid.lab.outcome import outcome_of
from pellucid.lab.results import read_result, write_result
from pellucid.runs import read_events
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import read_config
from pellucid.training import Evaluated
from pellucid.training import events as kinds
from support.life import SMALL, pretrain, write_rows
from support.tiny import TINY

REWARD = "support.life:short_and_finished"
SETTINGS = [*TINY, "text.held_out=0.2", "model.decoder.n_layers=1", "training.checkpoint_every=99"]


def beside_slow(place: Path, other: Path, lines: list[str]) -> Comparison:
    return compare(
        place / "slow.toml",
        other,
        place / "text.txt",
        seeds=1,
        steps=6,
        settings=SETTINGS,
        out=place / "out",
        notify=lines.append,
    )


def again(place: Path, out: Path, lines: list[str], **choices: Any) -> Comparison:
    return compare(
        place / "slow.toml",
        place / "fast.toml",
        place / "text.txt",
        **({"seeds": 3, "steps": 6} | choices),
        settings=SETTINGS,
        out=out,
        notify=lines.append,
    )


def test_a_clear_difference_is_found_and_its_numbers_are_those_of_the_runs(
    compared: Comparison,
) -> None:
    (pair,) = compared.pairs
    slow, fast = compared.variants
    assert pair.verdict.startswith("fast is better by ")
    assert pair.difference == paired_difference(slow.values, fast.values)
    for variant in compared.variants:
        for value, outcome in zip(variant.values, variant.outcomes, strict=True):
            evaluated = [
                event
                for event in read_events(RunFolder(outcome.folder).metrics)
                if isinstance(event, Evaluated)
            ]
            assert value == evaluated[-1].measure("bits_per_byte")
            assert evaluated[-1].step == 6
    assert compared.noise is not None
    assert compared.differing_keys == {"optimiser.learning_rate": (1e-5, 0.5)}


def test_pairs_share_seed_data_order_and_held_out_rows(compared: Comparison) -> None:
    slow, fast = compared.variants
    for seed, first, second in zip(compared.seeds, slow.outcomes, fast.outcomes, strict=True):
        first_config, second_config = (
            read_config(RunFolder(run.folder)) for run in (first, second)
        )
        assert first_config.seed == second_config.seed == seed
        assert first_config.text == second_config.text
        starts = [
            next(e for e in read_events(RunFolder(r.folder).metrics) if isinstance(e, Evaluated))
            for r in (first, second)
        ]
        # before the first update both are the same model on the same rows
        assert starts[0].loss_nats == starts[1].loss_nats
        assert starts[0].over == starts[1].over


def test_finished_runs_are_found_and_seeds_are_added(
    compared: Comparison, place: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(place / "out", tmp_path / "out")
    lines: list[str] = []
    four_seeds = again(place, folder, lines, seeds=4)
    assert [line.endswith("(found)") for line in lines] == [True] * 6 + [False] * 2
    assert four_seeds.variants[0].values[:3] == compared.variants[0].values
    words, choices = [place / "slow.toml", place / "text.txt"], {"steps": 6, "settings": SETTINGS}
    single_variant = compare(*words, seeds=3, out=folder, notify=lines.append, **choices)
    assert single_variant.pairs == ()
    assert single_variant.variants[0].values == compared.variants[0].values
    assert any("has no partner" in note for note in single_variant.notes)


def test_the_same_arguments_in_the_same_place_need_no_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [place / "slow.toml", place / "fast.toml", place / "text.txt"]
    choices: Any = {"steps": 6, "settings": SETTINGS}
    first = design(words, seeds=3, choices=choices)
    assert first.out == design(words, seeds=9, choices=choices).out
    assert first.out != design(words, choices=choices | {"steps": 7}).out
    assert first.out.parent == Path("runs")


def test_equal_configs_with_equal_seeds_read_identical(
    compared: Comparison, place: Path, tmp_path: Path
) -> None:
    twin = tmp_path / "twin.toml"
    twin.write_text((place / "slow.toml").read_text() + "\n# the same\n")
    lines: list[str] = []
    twin_result = beside_slow(place, twin, lines)
    assert twin_result.pairs[0].verdict.startswith("identical")
    assert not lines[1].endswith("(found)")  # it was trained, and not only compared with itself


def test_a_stopped_run_is_resumed_to_the_same_bits(compared: Comparison, place: Path) -> None:
    folder = place / "stopped"
    first = compared.variants[0].outcomes[0].folder.name
    _stop_after(folder, place, steps=4)
    assert [e.step for e in read_events(RunFolder(folder / first).metrics)][-1] == 4
    lines: list[str] = []
    values = again(place, folder, lines, seeds=1).variants[0].values
    assert values == compared.variants[0].values[:1]
    resumed = read_events(RunFolder(folder / first).metrics)
    assert any(isinstance(event, kinds.Resumed) for event in resumed)


def _stop_after(out: Path, place: Path, *, steps: int) -> None:
    """Stop a comparison by a signal while its first run trains."""
    import pellucid.lab.train_runs as train_runs

    original = train_runs.watcher

    def watcher() -> Any:
        inner = original()

        def enter(job: Any, emit: Any) -> Any:
            from contextlib import contextmanager

            @contextmanager
            def watching() -> Any:
                with inner(job, emit) as watch:

                    def observe(event: Any) -> None:
                        watch(event)
                        if isinstance(event, kinds.StepFinished) and event.step == steps:
                            os.kill(os.getpid(), signal.SIGINT)

                    yield observe

            return watching()

        return enter

    train_runs.watcher = watcher  # type: ignore[assignment]
    try:
        with pytest.raises(Interrupted, match="the same command continues in"):
            again(place, out, [], seeds=1)
    finally:
        train_runs.watcher = original


def test_changed_data_are_refused(compared: Comparison, place: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(place / "out", tmp_path / "out")
    text = place / "text.txt"
    before = text.read_text()
    text.write_text(before + "and more\n")
    try:
        with pytest.raises(RunError, match=r"the data have changed since .* was trained"):
            again(place, folder, [])
    finally:
        text.write_text(before)


def test_flops_are_an_equal_budget_for_models_of_other_sizes(place: Path) -> None:
    big = place / "big.toml"
    big.write_text("[model.decoder]\nn_layers = 6\n")
    choices: Any = {"flops": 3e8, "settings": [s for s in TINY if "n_layers" not in s]}
    small_run, big_run = (
        variant.run
        for variant in design(
            [place / "slow.toml", big, place / "text.txt"], choices=choices
        ).variants
    )
    for run in (small_run, big_run):
        assert isinstance(run.training.budget, config.Tokens)
        sized_run = replace(run, model=replace(run.model, vocab_size=258))
        assert run.training.budget.count * training_flops(sized_run) == pytest.approx(3e8, rel=1e-3)
    assert big_run.training.budget.count < small_run.training.budget.count


def test_facts_have_the_promised_keys_and_csv_a_row_for_each_run(compared: Comparison) -> None:
    facts = comparison_facts(compared)
    keys = {"name", "mean", "interval", "n", "values", "tokens_per_second", "parameters"}
    assert all(keys <= variant.keys() for variant in facts["variants"])
    assert all({"difference", "interval", "p", "verdict"} <= pair.keys() for pair in facts["pairs"])
    runs, pairs = write_tables(compared)
    assert len(runs.read_text().splitlines()) == 1 + 6
    assert len(pairs.read_text().splitlines()) == 1 + 1
    assert all(v["tokens_per_second"] > 0 and v["memory_bytes"] > 0 for v in facts["variants"])


def test_a_run_that_meets_a_value_that_is_not_finite_is_a_result(
    place: Path, tmp_path: Path
) -> None:
    wild = tmp_path / "wild.toml"
    wild.write_text((place / "fast.toml").read_text().replace("0.5", "1e30"))
    lines: list[str] = []
    result = beside_slow(place, wild, lines)
    assert result.variants[1].values == (None,)
    assert result.variants[1].outcomes[0].state == "not finite"
    assert result.pairs[0].verdict.startswith("nothing to compare")
    assert any("met a value that is not finite" in note for note in result.notes)


def test_policy_gradients_are_compared_by_their_reward(tmp_path: Path) -> None:
    base, rows = pretrain(tmp_path / "base"), write_rows(tmp_path)
    for name, rate in (("calm", 1e-4), ("bold", 0.1)):
        (tmp_path / f"{name}.toml").write_text(f"[optimiser]\nlearning_rate = {rate}\n")
    words = [tmp_path / "calm.toml", tmp_path / "bold.toml", rows]
    choices: Any = {
        "objective": "policy-gradient",
        "start": base,
        "steps": 1,
        "settings": [*SMALL, "objective.max_new_tokens=4"],
    }
    lines: list[str] = []
    result = compare(
        *words, seeds=1, reward=REWARD, out=tmp_path / "out", notify=lines.append, **choices
    )
    assert result.measure.name == "reward"
    assert [len(variant.values) for variant in result.variants] == [1, 1]
    assert REWARD not in (tmp_path / "out" / "comparison.json").read_text()  # it names code
    with pytest.raises(ConfigError, match="needs --reward"):
        compare(*words, seeds=2, out=tmp_path / "out", notify=lines.append, **choices)


def test_words_that_are_no_comparison_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, text = str(place / "slow.toml"), str(place / "text.txt")
    for words, reason in (
        ([text], "there is nothing to compare"),
        ([slow, "-"], "standard input ends"),
        ([str(place / "absent.toml"), text], f"error: {place}/absent.toml: does not exist"),
        ([slow, text, "--storage", "j.log"], "add --tune KEY"),
        ([slow, text, "--seeds", "1,1"], "different numbers"),
    ):
        assert main(["compare", *words]) == 2
        error = capsys.readouterr().err
        assert reason in " ".join(error.split())
        assert "Traceback" not in error
    with pytest.raises(ConfigError, match="give one of them"):
        design([slow, text], choices={"flops": 1e9, "steps": 3})


def test_held_out_rows_that_differ_are_refused(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[text]\nheld_out = 0.3\n")
    with pytest.raises(ConfigError, match=r"text\.held_out differs between variants"):
        design([place / "slow.toml", other, place / "text.txt"])


def test_other_tokenizers_are_compared_on_all_held_out_text(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[text]\ntokenizer = 'Characters'\n")
    experiment = design([place / "slow.toml", other, place / "text.txt"])
    assert {v.run.training.evaluate_tokens for v in experiment.variants} == {10**12}


def test_variants_of_one_name_are_told_apart(place: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text("")
    names = [v.name for v in design([place / "slow.toml", tmp_path / "slow.toml", "nano"]).variants]
    assert len(set(names)) == 3
    folders = {
        Variant(name="a/b c", run=v.run).folder(tmp_path, 0)
        for v in design(["nano", "small"]).variants
    }
    assert {folder.parent for folder in folders} == {tmp_path}


@pytest.mark.slow
def test_workers_share_the_runs_and_give_the_same_values(
    compared: Comparison, place: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    shared = again(place, tmp_path, lines, seeds=1, workers=2)
    assert sorted(line.split(":")[0] for line in lines) == [
        "fast, seed 0",
        "slow, seed 0",
    ]
    for variant, variant_alone in zip(shared.variants, compared.variants, strict=True):
        assert variant.values[0] == pytest.approx(variant_alone.values[0], rel=1e-4)


@pytest.mark.slow
def test_workers_save_and_end_with_their_parent_and_nothing_is_lost(
    compared: Comparison, place: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    words = ["compare", place / "slow.toml", place / "fast.toml", place / "text.txt"]
    words += ["--seeds", 1, "--steps", 90, "--workers", 2, "--out", folder, "--json"]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    line = [sys.executable, "-m", "pellucid", *map(str, words)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        while len(list(folder.glob("*-seed-0/metrics.jsonl"))) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        parent.kill()
    folders = list(folder.glob("*-seed-0"))
    deadline = time.monotonic() + 60
    while any(RunFolder(folder).is_held() for folder in folders):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)
    assert {outcome_of(folder).state for folder in folders} == {"unfinished"}
    unbroken = again(place, tmp_path / "whole", [], seeds=1, steps=90)
    lines: list[str] = []
    resumed = again(place, folder, lines, seeds=1, steps=90)
    assert [variant.values for variant in resumed.variants] == [
        pytest.approx(variant.values, rel=1e-3) for variant in unbroken.variants
    ]
    assert not any(line.endswith("(found)") for line in lines)


@pytest.mark.slow
def test_a_worker_that_fails_says_why(place: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a")
    with pytest.raises(RunError, match="too little text"):
        compare(
            place / "slow.toml",
            tmp_path / "short.txt",
            workers=2,
            settings=SETTINGS,
            out=tmp_path / "out",
            notify=lambda line: None,
        )


def test_a_result_carries_its_corpus_and_only_equal_ones_compare(
    compared: Comparison, place: Path, tmp_path: Path
) -> None:
    text = compared.variants[0].run.text
    renamed = tmp_path / "renamed.txt"
    renamed.write_bytes((place / "text.txt").read_bytes())
    copied = replace(text, corpus=replace(text.corpus, paths=(str(renamed),)))
    assert compared.corpus == corpus_digest(copied)  # names and folders do not count
    assert compared.corpus != corpus_digest(replace(text, held_out=0.3))
    result = write_result(compared)
    assert read_result(result.parent).corpus == compared.corpus
    renamed.write_text(renamed.read_text() + "more")
    words = [place / "slow.toml", place / "fast.toml", renamed]
    with pytest.raises(RunError, match="another corpus"):
        compare(words, steps=6, settings=SETTINGS, out=tmp_path / "out", against=[result])
    assert not (tmp_path / "out").exists()  # before anything is trained
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(RunError, match="not the result"):
        read_result(tmp_path / "broken.json")
