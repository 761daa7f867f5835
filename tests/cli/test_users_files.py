"""Nothing that a command did not write is ever removed or replaced, whatever ends the command."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

import pellucid.runs.adapters
import pellucid.runs.convert
import pellucid.runs.import_run
import pellucid.runs.rebuild
from pellucid.checkpoints import Checkpoint, Shelf
from pellucid.cli import main
from pellucid.errors import RunError
from pellucid.runs import RunFolder
from support.published import write
from support.tiny import TEXT, TINY

#: The module; the function of that name hides it.
training = importlib.import_module("pellucid.runs.train")

#: What a user may have called a file or a folder.
NAMES = (
    "notes.partial",
    "run.partial",
    "out.partial",
    "mine.partial",
    "text.partial",
    "out.old.partial",
    "config.toml.partial",
    "metrics.jsonl",
    ".lock",
    ".lock-owner.json",
    ".pellucid-unfinished",
    "text/train.npy",
    "out.partial/weights",
    "checkpoints/step-4/model.safetensors",
)

TRAIN = ["train", "text.txt", "--out", "out", "--steps", "2", "--no-vitals"]
TRAIN += [word for setting in (*TINY, "text.held_out=0.2") for word in ("--set", setting)]

COMMANDS = {
    "train": TRAIN,
    "branch": ["train", "--resume", "run", "--config", "run/config.toml", "--out", "out"],
    "import": ["import", "published", "out"],
    "export": ["export", "imported", "out"],
}

Tree = dict[str, bytes]


def tree(folder: Path) -> Tree:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def put(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"of the user's: {name}")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published model, and the run that was made of it."""
    folder = tmp_path_factory.mktemp("published")
    write(folder / "published")
    pellucid.runs.import_model(folder / "published", folder / "imported")
    return folder


@pytest.fixture
def place(tmp_path: Path, trained: Path, published: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a text, a run, a published model."""
    (tmp_path / "text.txt").write_text(TEXT)
    shutil.copytree(trained, tmp_path / "run")
    for name in ("published", "imported"):
        shutil.copytree(published / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_holds_anything_is_refused_and_stays(
    command: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        put(place / "out", name)
        before = tree(place)
        assert main(COMMANDS[command]) == 2, name
        assert "is there already and is not empty" in " ".join(capsys.readouterr().err.split())
        assert tree(place) == before, name
        shutil.rmtree(place / "out")


#: Inner functions by which each command is stopped: before, while and after it writes.
MOMENTS = {
    "train": [
        (training, "build_model"),
        (training, "assemble_task"),
        (training, "run_to_toml"),
    ],
    "branch": [(pellucid.runs.rebuild, "run_to_toml")],
    "import": [(pellucid.runs.import_run, "run_to_toml")],
    "export": [(pellucid.exports.tokenizer_files, "settings_for")],
}
ENDS = {
    "refusal": RunError("refused"),
    "disk": OSError(28, "No space left on device"),
    "Ctrl-C": KeyboardInterrupt(),
    "bug": RuntimeError("a bug"),
}
STOPS = [(command, moment) for command in MOMENTS for moment in MOMENTS[command]]


def taken_in_turn() -> list[object]:
    """Each stop with a folder that is there or with none, in turn; the others run at night."""
    return [
        pytest.param(
            command,
            moment,
            is_there,
            marks=[] if is_there == bool(place % 2) else [pytest.mark.nightly],
            id=f"{command} in {moment[1]}-{'an empty folder' if is_there else 'no folder'}",
        )
        for place, (command, moment) in enumerate(STOPS)
        for is_there in (False, True)
    ]


@pytest.mark.parametrize(("command", "moment", "is_there"), taken_in_turn())
def test_whatever_stops_a_command_every_byte_of_the_users_is_still_there(
    command: str,
    moment: tuple[object, str],
    is_there: bool,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder_of_out = place / "out" if is_there else place
    for name in ("notes.partial", "out.partial/config.toml", "out.2.partial", "out.old.partial"):
        put(place, name)
    if is_there:
        folder_of_out.mkdir()
    before = tree(place)
    for end in ENDS.values():
        added = dict[str, bytes]()

        def stop(*_: object, end: BaseException = end, added: Tree = added, **__: object) -> None:
            (unfinished,) = (path.parent for path in folder_of_out.glob("*/.pellucid-unfinished"))
            for name in ("notes.txt", "text/notes.txt", "checkpoints/step-0/notes.txt"):
                put(unfinished, name)
                file = unfinished / name
                added[file.relative_to(place).as_posix()] = file.read_bytes()
            raise end

        with monkeypatch.context() as patch:
            patch.setattr(*moment, stop)
            code = 1
            with contextlib.suppress(RuntimeError):
                code = main(COMMANDS[command])
        assert code == {"Ctrl-C": 130, "bug": 1}.get(
            next(name for name, one_end in ENDS.items() if one_end is end), 2
        )
        assert added
        assert tree(place) == before | added
        capsys.readouterr()
        for name in added:
            (place / name).unlink()
        for folder in sorted(folder_of_out.glob("**/"), reverse=True):
            if not any(folder.iterdir()) and folder != place / "out":
                folder.rmdir()


def test_a_link_to_an_empty_folder_is_filled_and_one_to_a_full_folder_refused(place: Path) -> None:
    (place / "elsewhere").mkdir()
    (place / "out").symlink_to(place / "elsewhere")
    assert main(COMMANDS["export"]) == 0
    assert (place / "elsewhere" / "model.safetensors").is_file()
    before = tree(place)
    assert main(COMMANDS["import"]) == 2
    assert main(TRAIN) == 2
    assert tree(place) == before
    assert (place / "out").is_symlink()


def _train_in_a_child(place: Path, moment: str) -> int:
    """A process that trains, and waits for its end at a moment of the preparation."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def wait(*_: object, **__: object) -> None:
            (place / "waiting").touch()
            time.sleep(60)

        setattr(training, moment, wait)
        os._exit(main(TRAIN))
    except BaseException:
        os._exit(99)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize(
    ("moment", "end"),
    [
        ("build_model", "SIGINT"),
        ("run_to_toml", "SIGTERM"),
        ("run_to_toml", "SIGKILL"),
        pytest.param("build_model", "SIGTERM", marks=pytest.mark.nightly),
        pytest.param("build_model", "SIGKILL", marks=pytest.mark.nightly),
        pytest.param("run_to_toml", "SIGINT", marks=pytest.mark.nightly),
    ],
)
def test_a_process_that_is_ended_leaves_the_users_files_and_can_be_begun_again(
    end: str, moment: str, place: Path
) -> None:
    put(place, "out.partial")
    child = _train_in_a_child(place, moment)
    deadline = time.monotonic() + 120
    while not (place / "waiting").exists():
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (place / "waiting").unlink()
    os.kill(child, getattr(signal, end))
    os.waitpid(child, 0)
    assert not (place / "out").exists()
    assert (place / "out.partial").read_text() == "of the user's: out.partial"
    assert main(TRAIN) == 0
    assert (place / "out" / "config.toml").is_file()
    assert sorted(path.name for path in place.glob("out*")) == ["out", "out.partial"]
    assert (place / "out.partial").read_text() == "of the user's: out.partial"


def test_checkpoints_that_go_take_nothing_of_the_users_with_them(
    trained: Path, place: Path
) -> None:
    run = RunFolder(place / "run")
    first, last = run.shelf.steps()[0], run.shelf.steps()[-1]
    state = Checkpoint({}, {}, {}, {})
    for name in NAMES:
        put(place / "run" / "checkpoints" / str(len(name)), name)
    for name in ("step-3/notes.txt", "step-99/model.safetensors", f"step-{first}/notes.txt"):
        put(place / "run" / "checkpoints", name)
    # a checkpoint of this very run that the user put aside, and one of another run
    shutil.copytree(run.shelf.path(last), run.shelf.path(5))
    Shelf(place / "other").save(6, state, best=False, keep=9)
    shutil.copytree(place / "other" / "step-6", run.shelf.path(6))
    before = tree(run.shelf.folder)
    own_files = {
        f"step-{first}/{file}" for file in os.listdir(trained / "checkpoints" / f"step-{first}")
    }
    for step in range(last + 1, last + 5):
        run.shelf.save(step, state, best=False, keep=1)
    after = tree(run.shelf.folder)
    deleted = {name for name in before if name not in after}
    assert deleted
    assert (
        deleted <= {name for name in before if name.startswith(("step-8/", "step-12/"))} | own_files
    )
    assert f"step-{first}/notes.txt" in after
    remaining = before.keys() - deleted - {"latest", "best", "run-id"}
    assert {name: after[name] for name in remaining} == {name: before[name] for name in remaining}


def test_a_folder_of_the_users_where_a_checkpoint_goes_is_kept(place: Path) -> None:
    shelf = Shelf(place / "checkpoints")
    put(shelf.folder, "step-1/notes.txt")
    put(shelf.folder, "step-2/model.safetensors")
    put(place, "elsewhere/notes.txt")
    (shelf.folder / "step-3").symlink_to(place / "elsewhere")
    for step in (1, 2, 3):
        shelf.save(step, Checkpoint({}, {}, {}, {}), best=False, keep=9)
    assert shelf.steps() == [1, 2, 3]
    after = tree(place)
    for name in ("checkpoints/step-1/notes.txt", "elsewhere/notes.txt"):
        assert after[name].startswith(b"of the user's")
    assert after["checkpoints/step-2-2/model.safetensors"].startswith(b"of the user's")


#: Commands that write one file: its name, the words, and whether it may be written again.
OUTPUTS: dict[str, tuple[str, list[str], bool]] = {
    "report": ("report.html", ["report", "run", "--out", "report.html"], True),
    "draw": ("nano.svg", ["draw", "nano", "--svg", "nano.svg"], True),
    "embed": ("vectors.npy", ["embed", "run", "the cat", "--out", "vectors.npy"], False),
    "tokenizer": (
        "words.json",
        ["tokenizer", "train", "text.txt", "--kind", "words", "--out", "words.json"],
        False,
    ),
}


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_that_pellucid_did_not_write_is_refused(
    command: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, words, may_replace = OUTPUTS[command]
    for other in (f"{name}.partial", f"{name}.2.partial/content", "tokenizer_config.json"):
        put(place, other)
    put(place, name)
    before = tree(place)
    assert main(words) == 2
    assert f"{name} is there already" in " ".join(capsys.readouterr().err.split())
    assert tree(place) == before
    (place / name).unlink()
    assert main(words) == 0
    content = (place / name).read_bytes()
    assert main(words) == (0 if may_replace else 2)
    assert (place / name).read_bytes()[:1000] == content[:1000]
    assert {other: tree(place)[other] for other in before if other != name} == {
        other: before[other] for other in before if other != name
    }


def test_a_download_touches_nothing_that_lies_beside_it(place: Path) -> None:
    from pellucid.datasets import fetch
    from pellucid.errors import TextError
    from support.server import Server, serving

    names = ("f.txt.partial", "f.txt.partial.version", "f.txt.partial.lock", "f.txt.2.partial/a")
    for name in names:
        put(place / "data", name)
    before = tree(place)
    with serving(Server(b"content " * 100)) as server:
        fetch(f"{server.url}/f.txt", place / "data" / "f.txt")
        (place / "data" / "f.txt").unlink()
        (place / "data" / "f.txt.sha256").write_text("of the user's")
        with pytest.raises(TextError, match=r"f\.txt\.sha256 exists, with another"):
            fetch(f"{server.url}/f.txt", place / "data" / "f.txt")
    after = tree(place)
    assert after["data/f.txt.sha256"] == b"of the user's"
    assert {name: after[name] for name in before} == before


def test_the_cache_removes_only_what_it_made(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(place / "mine"))
    for name in ("hashes.json", "file-hashes.json", "text/partial-notes/a", "text/notes.partial/a"):
        put(place / "mine", name)
        os.utime(place / "mine" / name, (0, 0))
    before = tree(place)
    assert main(TRAIN) == 0
    after = tree(place)
    assert {name: after[name] for name in before} == before
    assert any(name.endswith("text/train.npy") for name in after if name.startswith("mine/"))
    assert json.loads((place / "out" / "plan.json").read_text())
