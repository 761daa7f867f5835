"""The first minutes at the command line: examples, misspelt words, completion, where one is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import pellucid
from pellucid import cores
from pellucid.cli.examples import EXAMPLES
from pellucid.cli.main import main, parser
from pellucid.course import find_lesson
from pellucid.course.experiments import find as find_experiment
from pellucid.datasets import DATASETS
from pellucid.presets import find as find_preset

#: Run unchanged, on a run and a text; the others need a longer training, a network or a person.
RUN = (
    "check nano",
    "diagnose runs/my-run",
    "generate runs/my-run 'Once upon a time' --greedy --max-new-tokens 20",
    "score runs/my-run 'The cat sat on the' --next --top 5",
    "evaluate runs/my-run other.txt --json",
    "data list",
    "tokenizer show 'Hello, lowering' --tokenizer runs/my-run",
    "presets diff gpt2 gpt2-medium",
    "draw nano",
    "report runs/my-run --json",
    "runs",
    "experiment list",
    "equations why divide by sqrt d",
    "quiz 4",
    "learn list",
)


@pytest.mark.parametrize("verb", EXAMPLES)
def test_each_command_has_three_examples_that_it_understands(verb: str) -> None:
    assert len(set(EXAMPLES[verb])) == 3
    for line in EXAMPLES[verb]:
        arguments = parser().parse_args(shlex.split(line)[1:])
        assert arguments.command == verb


def test_the_examples_name_experiments_lessons_datasets_and_presets_that_there_are() -> None:
    find = {"experiment": find_experiment, "learn": find_lesson, "draw": find_preset}
    for verb, look_up in find.items():
        for line in EXAMPLES[verb]:
            name = shlex.split(line)[2]
            if name not in ("list", "build"):
                assert look_up(name)
    assert EXAMPLES["data"][1].split()[-1] in DATASETS


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path / "runs" / "my-run")
    (tmp_path / "other.txt").write_text("The cat sat on the mat. " * 200)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", RUN)
def test_an_example_works_as_it_stands(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"pellucid {line}" in EXAMPLES[line.split()[0]]
    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["trian"], "did you mean train?"),
        (["explian", "r", "t"], "did you mean explain?"),
        (["train", "--stepz", "4"], "did you mean --steps?"),
        (["generate", "r", "--temprature=2"], "did you mean --temperature?"),
        (["train", "--lr=1"], "did you mean --set optimiser.learning_rate=...?"),
        (["train", "--name", "a"], "did you mean --out?"),
        (["generate", "r", "--max-tokens", "4"], "did you mean --max-new-tokens?"),
        (["presets", "lst"], "did you mean list?"),
        (["score", "r", "t", "--devise", "cpu"], "did you mean --device?"),
    ],
)
def test_a_misspelt_word_gets_the_nearest_one(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert meant in capsys.readouterr().err


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for words in (["help"], ["--help"], ["help", "doctor"], ["doctor", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[2] == texts[3]


def test_a_long_usage_does_not_hide_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain"])
    assert capsys.readouterr().err.splitlines() == [
        "usage: pellucid explain ...",
        "pellucid explain: error: the following arguments are required: RUN",
        "`pellucid explain --help` lists all, with examples",
    ]


def test_a_word_that_is_near_nothing_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["qqqq"], ["train", "--zzzz"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_names_commands_and_flags(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--print-completion", shell])
    assert stop.value.code == 0
    script = capsys.readouterr().out
    assert "verify-resume" in script
    assert "max-new-tokens" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--print-completion", "bash"])
    script = capsys.readouterr().out + (
        "COMP_WORDS=(pellucid expl); COMP_CWORD=1; _shtab_pellucid; echo ${COMPREPLY[@]}\n"
    )
    process = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["explain"]


def test_alone_it_says_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "There is no run in runs/ yet" in text
    assert "  pellucid train  " in text


def test_alone_it_says_what_each_run_needs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = folder / "runs" / "stopped"
    shutil.copytree(folder / "runs" / "my-run", stopped)
    events = stopped / "metrics.jsonl"
    events.write_text("".join(events.read_text().splitlines(keepends=True)[:-2]))
    shutil.copytree(folder / "runs" / "my-run", folder / "runs" / "torn")
    (folder / "runs" / "torn" / "config.toml").write_text("=")
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "runs/ holds 3 runs" in text
    assert "pellucid explain runs/my-run" in text
    assert "pellucid train --resume runs/stopped" in text
    assert "runs/torn: damaged" in text


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["--color", "always"], [], True),
        ([], ["--color=always"], True),
        ([], ["--color", "never"], False),
    ],
)
def test_colours_are_as_the_flag_says(
    before: list[str],
    after: list[str],
    expected: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")
    words = [*before, "explain", "runs/my-run", "the cat", "--chapter", "norm", *after]
    assert main(words) == 0
    assert ("\x1b[" in capsys.readouterr().out) == expected


def test_waiting_threads_soon_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    cores.let_waiting_threads_sleep()
    assert os.environ.pop("GOMP_SPINCOUNT") == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    cores.let_waiting_threads_sleep()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_python_is_told_once_if_torch_came_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 99.0, 99.0))
    for variable in ("GOMP_SPINCOUNT", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    cores.warn_of_spinning.cache_clear()
    for _ in range(2):
        assert callable(pellucid.train)
    assert caplog.text.count("torch.set_num_threads(1)") == 1
    assert "GOMP_SPINCOUNT" not in os.environ


def test_the_doctor_says_what_the_machine_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"processor", "float32", "free memory", "huge pages", "packages"} <= set(report["facts"])
    assert all(set(hint) == {"problem", "remedy"} for hint in report["advice"])
