"""Whatever is wrong with what a user gives: exit code 2, one paragraph, and nothing is created."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pellucid.cli import main
from pellucid.runs import RunFolder
from support.tiny import TEXT, TINY

Damage = Callable[[Path], None]
LATEST = "checkpoints/step-12"


def flip(file: str, at: int = -1) -> Damage:
    """Turn over one bit of a byte."""

    def damage(run: Path) -> None:
        content = bytearray((run / file).read_bytes())
        content[at] ^= 0x10
        (run / file).write_bytes(content)

    return damage


def cut(file: str) -> Damage:
    """Keep the first half."""

    def damage(run: Path) -> None:
        content = (run / file).read_bytes()
        (run / file).write_bytes(content[: len(content) // 2])

    return damage


def remove(file: str) -> Damage:
    return lambda run: (run / file).unlink()


def write(file: str, content: bytes) -> Damage:
    return lambda run: (run / file).write_bytes(content) and None


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder; the lock file, which is only ever empty, does not count."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


@pytest.fixture
def place(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with one of every bad thing, and a copy of a good run."""
    files = {
        "good.txt": TEXT.encode(),
        "empty.txt": b"",
        "blank.txt": b" \n\t\n",
        "binary.txt": b"text\0more",
        "latin.txt": "café".encode("latin-1"),
        "short.txt": b"one line\nand two\n" * 8,
        "one.txt": b"x",
        "pictures/picture.png": b"\x89PNG",
        "full/something": b"",
        "broken.toml": b"[model\nd_model = 3",
        "latin.toml": "# café".encode("latin-1"),
        "unknown.toml": b'base = "nano"\n[model]\nd_modle = 64\n',
        "future.toml": b'format = 99\nbase = "nano"\n',
        "based.toml": b'base = "nanno"\n',
        "partial.toml": b"base = 3\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(words: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command says; all else that must hold of a refusal is checked."""
    before = tree(place)
    code = main(words)
    printed, errors = capsys.readouterr()
    assert code == 2
    assert errors.startswith("error: ")
    assert errors.endswith("\n")
    assert "\n\n" not in errors
    assert "Traceback" not in errors
    assert max(map(len, errors.splitlines())) <= 96 or " " not in max(errors.splitlines(), key=len)
    # `train` says what it is about to do; no refused command has a result
    assert all(line.endswith(" …") for line in printed.splitlines())
    assert tree(place) == before
    return " ".join(errors.split())


def train(*words: str) -> list[str]:
    return ["train", *words]


def good(*words: str) -> list[str]:
    """A tiny run on a good text but for `words`."""
    return ["train", "good.txt", "--out", "new", *(f"--set={setting}" for setting in TINY), *words]


CASES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    # text
    "an empty file": (train("empty.txt"), ("empty.txt is empty",)),
    "white space alone": (train("blank.txt"), ("blank.txt is empty",)),
    "a binary file": (train("binary.txt"), ("binary.txt is not a text", "NUL", "offset 4")),
    "a Latin-1 file": (train("latin.txt"), ("latin.txt is not UTF-8", "0xe9", "3", "iconv")),
    "a path that is not there": (train("nowhere.txt"), ("nowhere.txt does not exist",)),
    "a folder without text": (train("pictures"), ("pictures holds no text", ".txt, .text, .md")),
    "less text than a context": (
        train("short.txt", "--set", "text.tokenizer=Bytes", "--set", "model.context_length=512"),
        ("tokens, fewer than one context of 512", "--set model.context_length="),
    ),
    "less than a context, in a named folder": (
        train("short.txt", "--out", "new", "--set", "text.tokenizer=Bytes"),
        ("fewer than one context of 256",),
    ),
    "one letter": (train("one.txt"), ("too little text",)),
    "a good file and a bad one": (train("good.txt", "latin.txt"), ("latin.txt",)),
    # choices
    "an unknown preset": (train("--preset", "nanno"), ("'nanno'", "did you mean 'nano'", "gpt2")),
    "an unknown key": (
        good("--set", "model.d_modle=8"),
        ("model: unknown key 'd_modle'", "did you mean 'd_model'", "context_length"),
    ),
    "an unknown kind": (
        good("--set", "model.decoder.norm=RMSnorm"),
        ("model.decoder.norm: unknown kind 'RMSnorm'", "LayerNorm, RMSNorm"),
    ),
    "a value of the wrong type": (
        good("--set", "model.d_model=wide"),
        ("model.d_model: expected a whole number, was 'wide'",),
    ),
    "a value out of range": (
        good("--set", "model.decoder.dropout=1.5"),
        ("model.decoder", "dropout must be", "1.5"),
    ),
    "a setting without a value": (good("--set", "model.d_model"), ("expected PATH=VALUE",)),
    "heads that do not divide": (
        good("--set", "model.decoder.attention.n_kv_heads=3"),
        ("n_heads must be a multiple of n_kv_heads", "2 and 3"),
    ),
    "fewer rows than tokens": (
        good("--set", "model.vocab_size=100"),
        ("model.vocab_size is 100", "258 tokens"),
    ),
    "a config that is not there": (
        train("--config", "none.toml"),
        ("none.toml does not exist",),
    ),
    "a config that is a folder": (train("--config", "full"), ("full is a folder",)),
    "a config that is not TOML": (train("--config", "broken.toml"), ("broken.toml", "line 1")),
    "a config that is not UTF-8": (train("--config", "latin.toml"), ("latin.toml", "UTF-8")),
    "a config with an unknown key": (train("--config", "unknown.toml"), ("'d_modle'", "d_model")),
    "a config of another format": (train("--config", "future.toml"), ("format 99",)),
    "a config on an unknown preset": (train("--config", "based.toml"), ("'nanno'", "nano")),
    "a config on no name": (train("--config", "partial.toml"), ("base", "3")),
    "no steps": (good("--steps", "0"), ("steps", "at least 1", "was 0")),
    "negative steps": (good("--steps", "-5"), ("steps", "at least 1", "was -5")),
    "negative tokens": (good("--tokens", "-5"), ("tokens", "at least 1", "was -5")),
    "no minutes": (good("--minutes", "0"), ("minutes", "greater than 0", "was 0")),
    "a negative seed": (good("--seed", "-1"), ("seed must be between", "was -1")),
    "a device nobody knows": (good("--device", "abacus"), ("'abacus'", "use auto or cpu")),
    "a device that computes nothing": (good("--device", "meta"), ("'meta'", "use auto or cpu")),
    # folders
    "a folder that is not empty": (
        train("good.txt", "--out", "full"),
        ("full is there already and is not empty", "another folder"),
    ),
    "a folder that is a run": (
        train("good.txt", "--out", "run"),
        ("not empty", "pellucid train --resume run"),
    ),
    "a folder that is a file": (train("good.txt", "--out", "good.txt"), ("good.txt is there",)),
    "a folder inside a file": (train("good.txt", "--out", "good.txt/x"), ("good.txt/x",)),
    # resuming
    "to resume what is no run": (train("--resume", "full"), ("full is not a run", "config.toml")),
    "to resume what is not there": (train("--resume", "none"), ("none does not exist",)),
    "to resume with other choices": (
        train("good.txt", "--resume", "run", "--steps", "3", "--set", "seed=1"),
        ("--resume takes all settings from the run", "--set", "PATH"),
    ),
    # using
    "to write from no run": (["generate", "none", "--prompt", "a"], ("none does not exist",)),
    "to write from a text": (["generate", "good.txt", "--prompt", "a"], ("good.txt is not a run",)),
    "to write from a checkpoint not there": (
        ["generate", "run/checkpoints/step-99", "--prompt", "a"],
        ("step-99",),
    ),
    "a temperature below 0": (
        ["generate", "run", "--prompt", "a", "--temperature", "-1"],
        ("temperature must be at least 0", "was -1"),
    ),
    "a top-p of 2": (
        ["generate", "run", "--prompt", "a", "--top-p", "2"],
        ("top_p must be in (0, 1], was 2",),
    ),
    "a top-k of 0": (
        ["generate", "run", "--prompt", "a", "--top-k", "0"],
        ("top_k must be at least 1",),
    ),
    "a min-p of 0": (
        ["generate", "run", "--prompt", "a", "--min-p", "0"],
        ("min_p must be in (0, 1], was 0",),
    ),
    "a repetition penalty of 0": (
        ["generate", "run", "--prompt", "a", "--repetition-penalty", "0"],
        ("repetition_penalty must be from 1e-9 to 1e9", "1 changes nothing"),
    ),
    "no text to score": (["score", "run", ""], ("the text is empty", "pass some text")),
    "to score by no run": (["score", "none", "a"], ("none does not exist",)),
    "to score what is not UTF-8": (
        ["score", "run", os.fsdecode(b"caf\xe9")],
        ("is not UTF-8",),
    ),
    "no next tokens": (
        ["score", "run", "a", "--next", "--top", "0"],
        ("top must be at least 1, was 0",),
    ),
    "no new tokens": (
        ["generate", "run", "--prompt", "a", "--max-new-tokens", "0"],
        ("max_new_tokens must be at least 1",),
    ),
    "an empty stop text": (
        ["generate", "run", "--prompt", "a", "--stop", ""],
        ("stop must be texts that are not empty",),
    ),
    "a prompt that is not UTF-8": (
        ["generate", "run", "--prompt", os.fsdecode(b"caf\xe9")],
        ("is not UTF-8",),
    ),
    "to write on a device nobody knows": (
        ["generate", "run", "--prompt", "a", "--device", "abacus"],
        ("'abacus'",),
    ),
    "to evaluate on nothing there": (["evaluate", "run", "none.txt"], ("none.txt does not",)),
    "to evaluate on a binary": (["evaluate", "run", "binary.txt"], ("binary.txt is not a text",)),
    "to evaluate no run": (["evaluate", "full", "good.txt"], ("full is not a run",)),
    "to attach to no run": (["attach", "full"], ("full is not a run",)),
    "to verify no run": (["verify-resume", "none"], ("none does not exist",)),
    "to show no preset": (["presets", "show", "gpt3"], ("unknown preset 'gpt3'", "gpt2-xl")),
    "to compare no preset": (["presets", "diff", "gpt2", "gpt3"], ("unknown preset 'gpt3'",)),
    "to draw no preset": (
        ["draw", "gpt3"],
        ("unknown preset 'gpt3'", "gpt2-xl", "no run's folder"),
    ),
    "to draw no run": (["draw", "full"], ("full is not a run",)),
    "to draw a run and a config": (["draw", "run", "--config", "c.toml"], ("--set",)),
    "to draw with a bad key": (
        ["draw", "gpt2", "--set", "model.layers=3"],
        ("unknown key 'layers'",),
    ),
    "to draw into a folder that is not there": (
        ["draw", "gpt2", "--svg", "none/gpt2.svg"],
        ("none/gpt2.svg",),
    ),
    "to draw what no tokenizer has sized": (
        ["draw", "nano", "--set", "text.tokenizer=Bytes"],
        ("--set model.vocab_size=N",),
    ),
    "to count with a bad key": (
        ["presets", "count", "gpt2", "--set", "model.layers=3"],
        ("unknown key 'layers'",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(case: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, parts_of_message = CASES[case]
    message = refusal(words, place, capsys)
    for part in parts_of_message:
        assert part in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_is_not_there_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (good("--device", "cuda"), ["generate", "run", "--prompt", "a", "--device=cuda"]):
        assert "this machine has no 'cuda'" in refusal(words, place, capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "good.txt", "--steps", "3", "--tokens", "4"],
        ["train", "good.txt", "--steps", "three"],
        ["train", "good.txt", "--no-such-flag"],
        ["generate"],
        ["presets"],
        ["no-such-verb"],
    ],
    ids=" ".join,
)
def test_words_that_are_no_command_are_refused_with_the_usage(
    words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(place)
    with pytest.raises(SystemExit) as stop:
        main(words)
    printed, errors = capsys.readouterr()
    assert stop.value.code == 2
    assert errors.startswith("usage: pellucid")
    assert "error: " in errors
    assert printed == ""
    assert tree(place) == before


DAMAGED: dict[str, tuple[Damage, list[str], tuple[str, ...]]] = {
    "weights that rotted": (
        flip(f"{LATEST}/model.safetensors"),
        ["generate", "evaluate"],
        (f"{LATEST}/model.safetensors is damaged", "use run/checkpoints/step-8 instead"),
    ),
    "weights that were cut short": (
        cut(f"{LATEST}/model.safetensors"),
        ["generate"],
        (f"{LATEST}/model.safetensors is damaged", "use run/checkpoints/step-8 instead"),
    ),
    "an optimiser that rotted": (
        flip(f"{LATEST}/optimiser.safetensors"),
        ["generate"],
        (f"{LATEST}/optimiser.safetensors is damaged", "use run/checkpoints/step-8 instead"),
    ),
    "a state that is missing": (
        remove(f"{LATEST}/state.json"),
        ["generate"],
        (f"{LATEST}/state.json is missing", "use run/checkpoints/step-8 instead"),
    ),
    "a manifest that rotted": (
        flip(f"{LATEST}/checkpoint.json", 3),
        ["generate"],
        (LATEST, "use run/checkpoints/step-8 instead"),
    ),
    "a manifest without checksums": (
        write(f"{LATEST}/checkpoint.json", b'{"format": 1}'),
        ["generate"],
        (LATEST, "use run/checkpoints/step-8 instead"),
    ),
    "a mark that points nowhere": (
        write("checkpoints/latest", b"step-99\n"),
        ["generate"],
        ("step-99", "use run/checkpoints/step-12 instead"),
    ),
    "no tokenizer": (
        remove("tokenizer.json"),
        ["generate", "resume", "evaluate"],
        ("run/tokenizer.json does not exist",),
    ),
    "half a tokenizer": (
        cut("tokenizer.json"),
        ["generate", "resume"],
        ("run/tokenizer.json: is not valid JSON",),
    ),
    "half a config": (cut("config.toml"), ["generate", "resume"], ("run/config.toml",)),
    "a config that is not UTF-8": (
        write("config.toml", b"\xff"),
        ["generate", "resume"],
        ("run/config.toml",),
    ),
    "no plan": (remove("plan.json"), ["resume", "verify"], ("run/plan.json",)),
    "half a plan": (cut("plan.json"), ["resume", "verify"], ("run/plan.json",)),
    "text that rotted": (flip("text/train.npy"), ["resume"], ("run/text", "train.npy", "new run")),
    "no text": (remove("text/text.json"), ["resume"], ("run/text", "new run")),
    "records that rotted": (
        write("metrics.jsonl", b'{"event": "Logged"}\nnothing of the kind}\n'),
        ["resume", "attach"],
        ("run/metrics.jsonl",),
    ),
    "no records": (remove("metrics.jsonl"), ["attach"], ("has recorded nothing",)),
}
USES = {
    "generate": ["generate", "run", "--prompt", "a"],
    "evaluate": ["evaluate", "run", "good.txt"],
    "resume": ["train", "--resume", "run"],
    "verify": ["verify-resume", "run"],
    "attach": ["attach", "run"],
}


@pytest.mark.parametrize(
    ("case", "use"), [(case, use) for case, (_, uses, _) in DAMAGED.items() for use in uses]
)
def test_a_damaged_run_is_refused_with_the_files_name(
    case: str, use: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, _, parts_of_message = DAMAGED[case]
    damage(place / "run")
    message = refusal(USES[use], place, capsys)
    for part in parts_of_message:
        assert part in message


@pytest.mark.parametrize(
    "case", ["weights that rotted", "an optimiser that rotted", "a state that is missing",
             "a manifest that rotted", "a mark that points nowhere"]
)  # fmt: skip
def test_resume_goes_on_from_the_newest_whole_checkpoint_and_says_so(
    case: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, _, _ = DAMAGED[case]
    damage(place / "run")
    newest_step, damaged_step = ("12", "step-99") if "mark" in case else ("8", "step-12")
    assert main(USES["resume"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{damaged_step} is left out" in printed
    assert f"continues from step-{newest_step}" in printed


def test_an_older_checkpoint_can_be_used_where_the_latest_is_damaged(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(f"{LATEST}/model.safetensors")(place / "run")
    assert main(["generate", "run/checkpoints/step-8", "--prompt", "a", "--max-new-tokens=3"]) == 0
    assert main(["train", "--resume", "run/checkpoints/step-8", "--json"]) == 0
    capsys.readouterr()
    assert main(["generate", "run", "--prompt", "a", "--max-new-tokens=3"]) == 0


def test_an_error_is_json_where_json_was_asked_for(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    assert main(["generate", "none", "--prompt", "a", "--json"]) == 2
    printed, errors = capsys.readouterr()
    assert json.loads(printed)["error"] == "RunError"
    assert json.loads(printed)["message"].startswith("none does not exist")
    assert errors.startswith("error: none does not exist")


# -- in processes of their own


def command(
    *words: str, room: int | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """`pellucid`, in a process that may write no file larger than `room` bytes."""

    def limit() -> None:
        import resource

        assert room is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return subprocess.run(
        [sys.executable, "-m", "pellucid", *words],
        capture_output=True,
        check=False,
        input=stdin,
        preexec_fn=limit if room is not None else None,
    )


def test_a_run_in_use_is_not_touched(place: Path) -> None:
    before = tree(place)
    with RunFolder(place / "run").locked():
        result = command("train", "--resume", "run")
    assert result.returncode == 2
    error = " ".join(result.stderr.decode().split())
    assert error.startswith("error: run is in use by process " + str(os.getpid()))
    assert "pellucid attach run" in error
    assert tree(place) == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on file sizes")
def test_a_full_disk_leaves_earlier_checkpoints_whole(place: Path) -> None:
    run = place / "run"
    earlier = tree(run / "checkpoints/step-8")
    room = max(file.stat().st_size for file in (run / LATEST).iterdir()) - 1
    result = command("train", "--resume", "run/checkpoints/step-8", room=room)
    error = " ".join(result.stderr.decode().split())
    assert result.returncode == 2, error
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert "step-12 could not be written" in error
    assert "make room, then resume" in error
    assert tree(run / "checkpoints/step-8") == earlier
    assert not list(run.rglob("*.partial"))
    assert command("train", "--resume", "run").returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on file sizes")
@pytest.mark.parametrize("room", [0, 300, 4000])
def test_a_disk_that_is_full_from_the_start_is_said(place: Path, room: int) -> None:
    before = tree(place)
    result = command(*good("--steps", "4"), room=room)
    error = result.stderr.decode()
    assert result.returncode == 2, error
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert "room" in error
    assert tree(place) == before


def test_a_piped_prompt_that_is_not_utf8_is_refused(place: Path) -> None:
    result = command("generate", "run", stdin=b"caf\xe9\n")
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: the prompt")
    assert b"Traceback" not in result.stderr


def test_no_memory_left_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pellucid.runs.count_corpus", exhausted)
    assert main(["data", "report", "any.txt"]) == 2
    err = capsys.readouterr().err
    assert "memory ran out" in err
    assert "Traceback" not in err
