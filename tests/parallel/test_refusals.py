"""What ranks refuse together: one message, code 2 on all, and nothing written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.parallel import launch
from support.ranks import finish, free_port, start_rank
from support.tiny import ADAMW, TINY, flags_of, write_text

#: A bug of one rank, or another machine, as code that runs there before the command.
_COMMAND = "import sys; from pellucid.cli import main; sys.exit(main(sys.argv[1:]))"
_OTHER_CODE = "import pellucid.runs.follow as f; f._digest_of_code = lambda: 'other'; "
#: Another machine has another disk at the same place.
_OTHER_DISK = """
import ctypes, subprocess
assert ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", "disk"], check=True)
"""


def words_of(folder: Path, *more: str) -> list[str]:
    settings = (*TINY, *ADAMW, "training.batch_size=6", "training.accumulation=6")
    flags = flags_of(settings)
    return ["train", str(write_text(folder)), "--no-vitals", "--steps", "3", *flags, *more]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("variables", "code", "more", "message"),
    [
        ({}, "", ("--set", "seed=3"), "rank 1 of 2 has another config than rank 0"),
        ({}, "", ("--set", "parallel.tensor=2"), "rank 1 of 2 has another layout than rank 0"),
        ({}, "", ("--set", "training.rows=1"), "unknown key 'rows'"),
        ({}, _OTHER_CODE, (), "rank 1 of 2 has another code of pellucid"),
        ({}, _OTHER_DISK, (), "rank 1 of 2 does not see the folder that rank 0 made"),
        ({"WORLD_SIZE": "3"}, "", (), "WORLD_SIZE is 2 on rank 0 and 3 on rank 1"),
        (
            {"LOCAL_WORLD_SIZE": "1"},
            "",
            ("--set", "parallel.shard=node"),
            "rank 1 of 2 has another",
        ),
    ],
)
def test_a_rank_that_differs_is_refused_by_all_with_one_message(
    variables: dict[str, str], code: str, more: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    if code == _OTHER_DISK and subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("this user may not mount a disk: it needs the rights of root")
    (tmp_path / "disk").mkdir()
    words = words_of(tmp_path, "--out", "disk/run")
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(free_port())}
    ranks = [
        start_rank(0, ["-c", _COMMAND, *words], tmp_path, **shared),
        start_rank(1, ["-c", code + _COMMAND, *words, *more], tmp_path, **shared | variables),
    ]
    ends = finish(ranks)
    assert [code for code, _, _ in ends] == [2, 2], ends
    assert message in " ".join(ends[0][2].split())
    assert ends[1][1:] == ("", "")
    assert not [*(tmp_path / "disk").iterdir()]


def test_a_missing_world_size_and_a_mistyped_flag_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert main(["train", "text.txt"]) == 2
    assert "WORLD_SIZE is not" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, message in (("1", ""), ("0", "--bogus")):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit) as stop:
            main(["train", "--bogus"])
        assert stop.value.code == 2
        assert message in (error := capsys.readouterr().err)
        assert bool(error) == bool(message)


def test_a_machine_that_no_name_service_knows_is_refused_in_seconds_by_one_rank_of_each_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "_NAME_SECONDS", 0.1)
    host = "no-machine.invalid"
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": host, "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    for rank, message in (("0", f"MASTER_ADDR is '{host}', and no machine"), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert main(["train", "text.txt"]) == 2
        assert message in (error := " ".join(capsys.readouterr().err.split()))
        assert bool(error) == bool(message)
