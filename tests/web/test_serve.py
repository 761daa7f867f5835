"""`pellucid serve` as a process: it says where it is, answers, and ends when it is interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import torch

from pellucid import runs
from pellucid.cli import main
from pellucid.cli.main import parser
from pellucid.web.session import Session


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signal to end it with")
def test_the_page_is_served_until_it_is_interrupted(trained: Path) -> None:
    command = [sys.executable, "-m", "pellucid", "serve", str(trained), "--port", "0"]
    run = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a suite that runs in the background hands on that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert run.stdout is not None
        address = run.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urlopen(address, timeout=20) as page:
            assert b"app.js" in page.read()
        origin = {"origin": address.rstrip("/"), "content-type": "application/json"}
        request = Request(f"{address}ask", data=b'{"kind": "runs"}', headers=origin)
        with urlopen(request, timeout=20) as answer:
            assert json.load(answer)["sentence"] == "The cat sat on the mat"
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=20)
        assert "Traceback" not in errors
        assert run.returncode == 130
    finally:
        run.kill()
        run.communicate()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["serve", "nowhere"], "nowhere does not exist"),
        (["explain", "{run}", "x", "--serve", "--html", "a.html"], "choose one of them"),
        (["explain", "{run}", "x", "--serve", "--target", "y"], "--target is of one example"),
        (["explain", "{run}", "x", "--html", "a.txt"], "does not end in .html"),
        (["explain", "{run}", "x", "--html", "a.html", "--ablate", "L0.H0"], "leave --ablate"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is(
    trained: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main([word.format(run=trained) for word in words]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_a_port_is_refused_out_of_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "run", "--port", "70000"])
    assert "at most 65,535, was 70000" in capsys.readouterr().err


def test_flags_choose_where_the_page_opens() -> None:
    from pellucid.cli.verbs.serving.serve import _fragment  # pyright: ignore[reportPrivateUsage]

    words = ["explain", "r", "x", "--serve", "--chapter", "scores", "--layer", "2", "--token", "3"]
    fragment = _fragment(parser().parse_args(words), {"L2.H1": 0.0})
    assert fragment == "#chapter=scores&stack=decoder&t=3&l=2&x=L2.H1%3D0"


def test_the_page_and_the_api_read_the_same_rounded_weights(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[Session] = []

    def serve(session: Session, **flags: object) -> None:
        sessions.append(session)

    monkeypatch.setattr("pellucid.web.serving.serve", serve)
    assert main(["serve", str(trained), "--weights", "int8"]) == 0
    served = sessions[0].shelf.load("run0").model.state_dict()
    rounded = runs.load(trained, weights="int8").model.state_dict()
    stored = runs.load(trained).model.state_dict()
    assert all(torch.equal(served[name], rounded[name]) for name in rounded)
    assert not all(torch.equal(served[name], stored[name]) for name in stored)


def test_a_folder_of_runs_opens_with_the_list_of_them(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_views: list[object] = []
    monkeypatch.setattr(
        "pellucid.web.serving.serve",
        lambda session, **flags: first_views.append(flags["fragment"]),
    )
    shutil.copytree(trained, tmp_path / "runs" / "one")
    assert main(["serve", str(tmp_path / "runs")]) == 0
    assert main(["serve", str(trained)]) == 0
    assert first_views == ["#list=1", ""]
