"""What a person sees: real terminals of several sizes, a log, and a continuous integration's."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from support.tiny import TINY, write_text

ASKED = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES", "CI")
LAST = "pellucid verify-resume run"


def command(folder: Path, steps: int) -> list[str]:
    write_text(folder)
    settings = [f"--set={setting}" for setting in (*TINY, "text.held_out=0.2")]
    words = [sys.executable, "-m", "pellucid", "train", "text.txt", "--out=run"]
    return [*words, f"--steps={steps}", *settings]


def plain_environment() -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name not in ASKED}
    return variables | {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}


class Terminal:
    """A pane of tmux, with a command in it."""

    def __init__(self, folder: Path, socket: str) -> None:
        self._folder, self._socket = folder, socket

    def start(self, words: list[str], columns: int, rows: int, **environment: str) -> None:
        assigned = [f"{name}={value}" for name, value in environment.items()]
        # a shell that outlives the Ctrl-C which is meant for the command
        line = f"trap : INT; {shlex.join(['env', *assigned, *words])}; echo ended $?; sleep 600"
        size = ["-x", str(columns), "-y", str(rows)]
        self.tmux("-f", os.devnull, "-u", "new-session", "-d", *size, "sh", "-c", line)

    def tmux(self, *words: str) -> str:
        process = subprocess.run(
            ["tmux", "-L", self._socket, *words],
            cwd=self._folder,
            env=plain_environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=30,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    def shown(self, *words: str) -> str:
        """All that was written, what scrolled away included, lines that were wrapped made whole."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-", *words)

    def wait_for(self, words: str) -> str:
        deadline = time.monotonic() + 120
        while words not in (text := self.shown()):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        return text


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: apt-get install tmux")
    # a server of its own: the last one may still be on its way out
    new_terminal = Terminal(tmp_path, f"pellucid-{os.getpid()}-{tmp_path.name}")
    yield new_terminal
    new_terminal.tmux("kill-server")


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def panel_of(text: str) -> list[str]:
    """The lines of the one panel there is, from corner to corner."""
    lines = lines_of(text)
    top = [i for i, line in enumerate(lines) if line.startswith("╭")]
    bottom = [i for i, line in enumerate(lines) if line.startswith("╰")]
    assert (len(top), len(bottom)) == (1, 1), text
    return lines[top[0] : bottom[0] + 1]


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (80, 10), (60, 24)])
def test_a_terminal_ends_with_one_whole_panel_and_the_summary(
    columns: int, rows: int, terminal: Terminal, tmp_path: Path
) -> None:
    terminal.start(command(tmp_path, steps=60), columns, rows)
    text = terminal.wait_for("ended 0")
    first, *inner_lines, last = panel_of(text)
    assert "run  step 60/60" in first
    assert all(cell_len(line) == columns for line in (first, *inner_lines, last))
    assert all(line[0] == line[-1] == "│" for line in inner_lines)
    assert (first[-1], last[-1]) == ("╮", "╯")
    assert any("finished after step 60" in line for line in inner_lines)
    lines = lines_of(text)
    assert any(line.endswith(LAST) for line in lines)
    long_starts = ("pellucid ", "a sample, at", "the held-out loss was", "the best model is kept")
    short_lines = [
        line
        for line in lines
        if not line.strip().startswith(long_starts) and "to resume" not in line
    ]
    assert max(map(cell_len, short_lines)) <= columns
    assert columns < 80 or max(map(cell_len, lines)) <= columns
    assert not any("�" * 3 in line for line in inner_lines)
    assert terminal.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"


def test_ctrl_c_leaves_a_whole_panel_and_the_way_on(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(command(tmp_path, steps=100_000), 80, 24)
    terminal.wait_for("train     ")
    terminal.tmux("send-keys", "C-c")
    text = terminal.wait_for("ended 130")
    panel = panel_of(text)
    assert all(cell_len(line) == 80 for line in panel)
    panel_text = " ".join(line.strip("│ ") for line in panel)
    assert re.search(r"interrupted by SIGINT: step \d+ is finished and saved", panel_text)
    assert "continue with: pellucid train --resume run" in " ".join(text.split())


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("CI", "true")])
def test_a_terminal_that_only_keeps_a_log_gets_plain_lines(
    name: str, value: str, terminal: Terminal, tmp_path: Path
) -> None:
    terminal.start(command(tmp_path, steps=3), 80, 24, **{name: value})
    text = terminal.wait_for("ended 0")
    assert "╭" not in text
    assert "step 3/3 100.0% loss" in text
    assert LAST in text
    assert "\x1b" not in terminal.shown("-e")


def test_no_color_is_a_panel_without_colours(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(command(tmp_path, steps=3), 80, 24, NO_COLOR="1")
    assert panel_of(terminal.wait_for("ended 0"))
    assert not re.search(r"\x1b\[(?:[349][0-7]|10[0-7])m", terminal.shown("-e"))


def test_a_log_under_nohup_is_plain_lines(tmp_path: Path) -> None:
    if shutil.which("nohup") is None:
        pytest.skip("this system has no nohup")
    log = tmp_path / "nohup.txt"
    with log.open("wb") as log_file:
        process = subprocess.run(
            ["nohup", *command(tmp_path, steps=3)],
            cwd=tmp_path,
            env=plain_environment() | {"FORCE_COLOR": "1", "TERM": "xterm-256color"},
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    text = log.read_text("utf-8")
    assert process.returncode == 0, text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "╭" not in text
    log_lines = text.splitlines()
    assert log_lines[0] == "reading the text …"
    assert any(line.startswith("step 3/3 100.0% loss") for line in log_lines)
    assert any(line.startswith("finished after step 3") for line in log_lines)
    assert log_lines[-1] == f"    {LAST}"


@pytest.mark.nightly
def test_keys_and_a_new_size_reach_a_run_in_a_real_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.start(command(tmp_path, steps=100_000), 110, 36)
    terminal.wait_for("left")
    terminal.tmux("send-keys", "h")
    terminal.wait_for("Ctrl-C saves and stops")
    terminal.tmux("send-keys", "x")
    terminal.wait_for(" tokens ")
    terminal.tmux("send-keys", "s")
    terminal.wait_for("saved ")
    terminal.tmux("send-keys", "p")
    terminal.wait_for("paused after step")
    paused = terminal.shown()
    time.sleep(1.0)
    assert terminal.shown() == paused
    terminal.tmux("resize-window", "-x", "60", "-y", "20")
    time.sleep(1.0)
    lines = lines_of(terminal.tmux("capture-pane", "-p"))
    assert lines[0].startswith("╭")
    assert all(cell_len(line) == 60 for line in lines if line)
    terminal.tmux("send-keys", "p")
    terminal.tmux("send-keys", "C-c")
    text = terminal.wait_for("ended 130")
    assert "is finished and saved" in text
