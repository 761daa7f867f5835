"""What signals and closed pipes do to a command: the right code, no traceback, all cleared up."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.runs import RunFolder
from support.tiny import TINY, write_text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
CODES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
VERBS = {
    "generate": ["generate", "run"],
    "attach": ["attach", "run"],
    "diagnose": ["diagnose", "run"],
    "export": ["export", "run", "there"],
    "course.equations": ["equations"],
}


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_command_ends_on_a_signal_with_its_code_and_clears_up(
    verb: str,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = ["a file"]

    def work(arguments: argparse.Namespace) -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            left.clear()

    before = [signal.getsignal(number) for number in CODES]
    monkeypatch.setattr(import_module(f"pellucid.cli.verbs.{verb}"), "call", work)
    assert main(VERBS[verb]) == CODES[number]
    assert left == []
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert errors.startswith(f"stopped by {number.name} at once")
    assert [signal.getsignal(number) for number in CODES] == before


#: A process as the command line starts it, that sends itself signals at a chosen moment.
MOMENT = """
import os, signal, sys

def send(*_, times=1):
    for _ in range(times):
        os.kill(os.getpid(), {number})
    return None

{moment}
from pellucid.cli import main
sys.argv = ["pellucid", "equations"]
sys.exit(main())
"""
MOMENTS = {
    "while the verbs are loaded": """
class Hook:
    def find_spec(self, name, path=None, target=None):
        return send() if name == "pellucid.cli.verbs.draw" else None
sys.meta_path.insert(0, Hook())
""",
    "while flags are read": """
import argparse
argparse.ArgumentParser.parse_known_args = send
""",
    "twice, the second while it is cleared up": """
import pellucid.cli.verbs.course.equations
def call(arguments):
    try:
        send()
    finally:
        send()
pellucid.cli.verbs.course.equations.call = call
""",
    "twice, the second while it is told": """
import pellucid.cli.verbs.course.equations, pellucid.cli.main
pellucid.cli.verbs.course.equations.call = pellucid.cli.main.say_error = send
""",
}


def ended(number: int, moment: str) -> tuple[int, str]:
    code = MOMENT.format(number=int(number), moment=moment)
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    return process.returncode, process.stderr


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_at_any_moment_has_its_code_and_no_traceback(
    moment: str, number: signal.Signals
) -> None:
    code, message = ended(number, MOMENTS[moment])
    assert code == CODES[number]
    assert message == f"stopped by {number.name} at once\n"


@pytest.mark.parametrize("number", CODES)
def test_a_signal_once_all_is_done_changes_nothing(number: signal.Signals) -> None:
    at_the_end = "import atexit; atexit.register(send, times=3)"
    assert ended(number, at_the_end) == (0, "")


def test_a_library_that_makes_an_error_of_a_signal_does_not_hide_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(arguments: argparse.Namespace) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except BaseException:
            raise ValueError("could not determine the shape") from None  # as safetensors did

    monkeypatch.setattr(import_module("pellucid.cli.verbs.course.equations"), "call", work)
    assert main(["equations"]) == 143
    assert capsys.readouterr().err == "stopped by SIGTERM at once\n"


def test_what_is_ignored_at_the_start_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(arguments: argparse.Namespace) -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(import_module("pellucid.cli.verbs.course.equations"), "call", work)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["equations"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_export_that_is_ended_leaves_nothing_behind(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid.checkpoints import write_folder

    def export(run: str, target: str) -> None:
        def write(partial: Path) -> None:
            (partial / "model.safetensors").write_text("half of it")
            os.kill(os.getpid(), signal.SIGTERM)

        write_folder(Path(target), ["model.safetensors"], write)

    monkeypatch.setattr("pellucid.runs.export_run", export)
    assert main(["export", str(trained), str(tmp_path / "published")]) == 143
    assert list(tmp_path.iterdir()) == []


def test_attach_ends_at_sigterm_with_its_code_and_at_ctrl_c_with_0(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid import runs

    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 0)):
        monkeypatch.setattr(runs, "attach", lambda _, n=number: [os.kill(os.getpid(), n)])
        assert main(["attach", str(trained)]) == code


def training(folder: Path, *words: str) -> list[str]:
    settings = [word for assignment in TINY for word in ("--set", assignment)]
    file = write_text(folder / "text")
    run = ["train", str(file), "--out", str(folder / "run"), *words, *settings]
    return [sys.executable, "-m", "pellucid", *run]


def test_a_reader_who_leaves_does_not_stop_a_training(tmp_path: Path) -> None:
    # as `pellucid train ... 2>&1 | head -1`
    process = subprocess.Popen(
        training(tmp_path, "--steps", "20"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert RunFolder(tmp_path / "run").shelf.latest().name == "step-20"


@pytest.mark.nightly
def test_a_terminal_that_is_closed_ends_a_training_saved(tmp_path: Path) -> None:
    import fcntl
    import pty
    import termios

    terminal, child_end = pty.openpty()
    process = subprocess.Popen(
        training(tmp_path, "--steps", "100000"),
        stdin=child_end,
        stdout=child_end,
        stderr=child_end,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(child_end)
    while not (tmp_path / "run" / "checkpoints" / "latest").exists():
        assert os.read(terminal, 65_536), "it ended by itself"
    os.close(terminal)  # the window is closed
    assert process.wait(timeout=120) == 129
    shelf = RunFolder(tmp_path / "run").shelf
    assert shelf.latest() == shelf.path(shelf.steps()[-1])
