"""Every verb on a run with a damaged file, and with absurd numbers: an exit code of ours, always.

Fixed seeds: a sample in the ordinary suite, all of them under `nightly`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.checkpoints.files import MANIFEST
from pellucid.cli.main import parser
from support.hostile import bounded_memory, damaged, ends

CHECKPOINT = "checkpoints/step-12"
FILES = (
    "config.toml", "plan.json", "tokenizer.json", "metrics.jsonl", "checkpoints/latest",
    f"{CHECKPOINT}/state.json", f"{CHECKPOINT}/checkpoint.json", f"{CHECKPOINT}/model.safetensors",
    f"{CHECKPOINT}/optimiser.safetensors", f"{CHECKPOINT}/random.safetensors",
)  # fmt: skip
VERBS = {
    "generate": "RUN --prompt the --max-new-tokens 2", "score": "RUN text", "explain": "RUN text",
    "evaluate": "RUN", "embed": "RUN the", "classify": "RUN the", "fill": "RUN the",
    "answer": "RUN the", "translate": "RUN the", "attach": "RUN", "report": "RUN", "vitals": "RUN",
    "diagnose": "RUN", "check": "RUN", "draw": "RUN", "presets": "count RUN", "export": "RUN out",
    "chat": "RUN", "experiment": "softmax-against-plain-sum",
    "plan": "RUN --devices 1 --device-kind cpu",
    "train": "--resume RUN", "distill": "RUN t.txt --steps 1 --set model.context_length=8",
    "tokenizer": "show --tokenizer RUN the", "quiz": "RUN", "equations": "RUN", "import": "RUN out",
    "data": "RUN", "runs": ".", "doctor": "",
}  # fmt: skip
#: These verbs do their work on a whole run of a decoder; the others refuse it in words.
DONE = (
    "generate", "score", "explain", "evaluate", "embed", "attach", "report", "diagnose", "check",
    "draw", "train", "tokenizer", "runs", "plan", "doctor",
)  # fmt: skip
ABSURD = (
    "-1", "0", "nan", "inf", "1e30", "9" * 30, "9" * 5000, "1e-320", "", "½", "x", "\x00", "1,2",
)  # fmt: skip
#: Verbs that wait, serve, ask a server or run for long where the number is a good one.
_LONG = {
    "train", "distill", "serve", "mcp", "push", "verify-resume", "data", "quiz", "compare", "sweep",
    "scaling", "learn",
}  # fmt: skip


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run lies; tests put a copy of the trained one there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 20)
    fresh(trained, tmp_path / "run")
    return tmp_path / "run"


def fresh(trained: Path, run: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(trained, run, ignore=shutil.ignore_patterns("films"))


def words_of(verb: str, run: Path) -> list[str]:
    return [verb, *(str(run) if word == "RUN" else word for word in VERBS[verb].split())]


def damage(run: Path, name: str, seed: int) -> None:
    """Damage a file of a run; one of a checkpoint gets the checksum that fits it."""
    file = run / name
    content = damaged(file.read_bytes(), random.Random(f"{name} {seed}"))
    file.write_bytes(content)
    if file.parent.name == "step-12" and file.name != MANIFEST:
        manifest = json.loads((file.parent / MANIFEST).read_text())
        manifest["sha256"][file.name] = hashlib.sha256(content).hexdigest()
        (file.parent / MANIFEST).write_text(json.dumps(manifest))


def attack(
    cases: list[tuple[str, str, int]], trained: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb, name, seed in cases:
        fresh(trained, run)
        shutil.rmtree(run.parent / "out", ignore_errors=True)
        damage(run, name, seed)
        try:
            with bounded_memory():
                ends(words_of(verb, run), capsys)
        except Exception as error:
            raise AssertionError(f"{verb} on {name}, seed {seed}") from error


def numbered(run: Path) -> Iterator[list[str]]:
    """Each flag of each verb that takes a value, with each absurd one."""
    verbs = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert verbs.choices.keys() == VERBS.keys() | _LONG, "say how a new verb is run"
    for verb, options in verbs.choices.items():
        if verb in _LONG:
            continue
        for option in options._actions:
            if option.option_strings and option.nargs != 0 and option.type is not None:
                for value in ABSURD:
                    yield [*words_of(verb, run), option.option_strings[-1], value]


@pytest.mark.parametrize("verb", DONE)
def test_a_whole_run_is_done(verb: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(words_of(verb, run), capsys) == 0


def test_a_damaged_run_ends_every_verb_in_words(
    trained: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = [verb for verb in VERBS if verb != "distill"]  # which trains a model of usual size
    cases = [(verb, name, seed) for verb in quick for name in FILES for seed in range(20)]
    attack(random.Random(9).sample(cases, 16), trained, run, capsys)


@pytest.mark.nightly
@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_run_ends_every_verb_in_words_at_length(
    verb: str, trained: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = range(20, 22 if verb == "distill" else 30)  # which trains a model of usual size
    attack([(verb, name, seed) for name in FILES for seed in seeds], trained, run, capsys)


def test_an_absurd_number_ends_every_verb_in_words(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = list(numbered(run))
    assert len(cases) > 100
    with bounded_memory():
        for words in random.Random(9).sample(cases, 40):
            ends(words, capsys)


@pytest.mark.nightly
def test_every_absurd_number_ends_every_verb_in_words(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in numbered(run):
        with bounded_memory():
            ends(words, capsys)
