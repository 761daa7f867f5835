"""Every command of the README and of the first steps is run as it is printed, in order.

The folder has the files that they name. Trainings are shortened with `--steps`, and runs that they
name were trained before, by the default preset: nothing else is changed. What cannot be run here is
listed by its exact line, with why.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pellucid
from pellucid.cli.main import main
from pellucid.training import Event, Interrupts, Logged
from test_docs import ROOT, commands, fenced

PAGES = (ROOT / "README.md", ROOT / "docs" / "first-steps.md")
#: Exact lines that are not run, and why.
NOT_RUN = {
    "pellucid data get tinystories-valid": "needs the network",
}
#: These serve until they are stopped: in a process of their own, which is.
SERVES = 'pellucid explain runs/my-run "the cat sat" --serve'
#: Verbs that take a while, and so run nightly.
LONG = (
    "pellucid train",
    "pellucid distill",
    "pellucid check",
    "pellucid answer",
    "pellucid compare",
)
LONG_LINES = ("--prove", "--serve")
PROSE = "the quick brown fox jumps over the lazy dog; the cat sat on the mat.\n"


def bare(line: str) -> str:
    """A line without its comment and the blanks before it."""
    return re.sub(r"\s+#.*$", "", line)


EVERY = list(dict.fromkeys(bare(line) for page in PAGES for line in commands(page)))


def is_long(line: str) -> bool:
    return line.startswith(LONG) or any(part in line for part in LONG_LINES)


def files() -> None:
    """What the README's commands name: the user's own files."""
    for name in ("my-notes/a.md", "novel.txt", "another.txt", "my-text.txt", "books/b.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(
            "".join(f"Line {n} of {name}: {PROSE}" for n in range(300)), encoding="utf-8"
        )
    rows = "".join(json.dumps({"text": f"{n} {PROSE}" * 5}) + "\n" for n in range(40))
    Path("data/deep").mkdir(parents=True)
    Path("data/deep/rows.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    question_rows = [
        {"prompt": f"Name {n} colours.", "answer": f"Red, and {n} more."} for n in range(60)
    ]
    lines("questions.jsonl", question_rows)
    lines("prompts.jsonl", [{"prompt": row["prompt"]} for row in question_rows])
    preferred = [row | {"chosen": row["answer"], "rejected": "No."} for row in question_rows]
    keys = ("prompt", "chosen", "rejected")
    lines("preferred.jsonl", [{key: row[key] for key in keys} for row in preferred])
    Path("rewards.py").write_text(
        "def short(prompt, answer, **columns):\n    return 1 / (1 + len(answer))\n"
    )
    table("messages.csv", ",", ["sms", "class"], [[f"{w} number {n}", w] for n in range(40)
                                                  for w in ("spam", "ham")])  # fmt: skip
    table("pairs.tsv", "\t", ["english", "french"], [[f"the cat {n}", f"le chat {n}"]
                                                     for n in range(80)])  # fmt: skip
    log = [{"step": 10 * n, "loss": 3.0 - n / 9 if n < 3 else float("nan")} for n in range(1, 5)]
    Path("trainer_state.json").write_text(json.dumps({"log_history": log}))
    (run,) = (block for block in fenced(PAGES[1], "toml") if "learning_rate" in block)
    Path("my.toml").write_text(run)  # the page's own


def lines(name: str, rows: list[dict[str, str]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def table(name: str, separator: str, head: list[str], rows: list[list[str]]) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([head, *rows])


class Stopping:
    """Asks for a stop after the first update, as Ctrl-C would."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts

    def __call__(self, event: Event) -> None:
        self.interrupts.asked = self.interrupts.asked or isinstance(event, Logged)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files and the runs that the README names."""
    folder, before = tmp_path_factory.mktemp("readme"), Path.cwd()
    os.chdir(folder)
    try:
        files()
        stop = Interrupts()
        with pytest.raises(pellucid.Interrupted):  # so that there is something to go on with
            pellucid.train(
                ["my-text.txt"],
                out="runs/nano-stopped",
                steps=2,
                settings=["training.log_every=1"],
                show=False,
                observers=[Stopping(stop)],
                interrupts=stop,
            )
        for name in ("my-run", "other"):
            assert not main(["train", "my-text.txt", "--out", f"runs/{name}", "--steps", "2"])
        yield folder
    finally:
        os.chdir(before)


def shortened(line: str) -> list[str]:
    """The words of a line; a training is made short, the run of this machine put in."""
    words = shlex.split(line)[1:]
    words = [word.replace("runs/nano-...", "runs/nano-stopped") for word in words]
    if words[0] in ("train", "distill") and "--resume" not in words:
        if "--minutes" in words:
            place = words.index("--minutes")
            del words[place : place + 2]
        words += ["--steps", "1"]
    if words[0] == "compare":
        words += ["--steps", "1", "--seeds", "1"]
    return words


@pytest.mark.parametrize("line", [line for line in EVERY if not is_long(line)])
def test_a_short_command_of_the_readme_runs_as_it_is_printed(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if line in NOT_RUN:
        pytest.skip(NOT_RUN[line])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code = main(shortened(line))
    assert code == 0, capsys.readouterr().err


@pytest.mark.nightly
def test_the_long_commands_of_the_readme_run_as_they_are_printed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.path.insert(0, str(place))  # as `python -m` and the command have it, for rewards.py
    try:
        for line in filter(is_long, EVERY):
            if line != SERVES:
                assert main(shortened(line)) in (0, 3), (line, capsys.readouterr().err)
    finally:
        sys.path.remove(str(place))


@pytest.mark.nightly
def test_the_page_of_the_readme_is_served_until_it_is_stopped(place: Path) -> None:
    assert SERVES in EVERY
    words = [sys.executable, "-m", "pellucid", *shlex.split(SERVES)[1:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        line = ""
        while "http://127.0.0.1" not in line:
            line = process.stdout.readline()
            assert line, "it ended before it served"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)


def test_every_line_that_is_not_run_is_still_on_a_page() -> None:
    assert set(NOT_RUN) <= set(EVERY)
