"""Unfinished folders: pellucid's go or are continued, other people's files stay."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pellucid.disk import (
    FolderInUse,
    Partial,
    clear,
    is_free,
    new_folder,
    remove,
    sweep,
    write_folder,
)
from pellucid.disk import write_bytes as write_file
from pellucid.disk.removal import LOCK, MARK

FILES = ("weights", "text/*.npy")


def fill(folder: Path) -> None:
    (folder / "weights").write_text("ours")
    (folder / "text").mkdir(exist_ok=True)
    (folder / "text" / "train.npy").write_text("ours")


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_a_finished_folder_holds_what_was_written_and_no_mark(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "run", FILES) as folder:
        fill(folder)
        assert not (tmp_path / "a" / "run").exists()
    assert tree(tmp_path) == {"a/run/weights": "ours", "a/run/text/train.npy": "ours"}


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_what_was_stopped_leaves_nothing_of_ours_and_all_of_the_users(
    tmp_path: Path, failure: BaseException
) -> None:
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "weights").write_text("mine")
    (tmp_path / "run.2.partial").write_text("mine")

    def attempt() -> None:
        with new_folder(tmp_path / "run", FILES) as folder:
            fill(folder)
            (folder / "text" / "notes.npy.txt").write_text("mine")
            (folder / "weights.old").write_text("mine")
            raise failure

    with pytest.raises(type(failure)):
        attempt()
    assert tree(tmp_path) == {
        "run.partial/weights": "mine",
        "run.2.partial": "mine",
        "run.3.partial/text/notes.npy.txt": "mine",
        "run.3.partial/weights.old": "mine",
    }


def test_folders_that_were_made_go_again_and_those_that_were_there_stay(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for target in (tmp_path / "runs" / "a", tmp_path / "b" / "c" / "d"):
        Partial(target, FILES).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_an_empty_folder_of_the_users_is_filled_and_stays_the_same(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    number = target.stat().st_ino
    (tmp_path / "link").symlink_to(target)
    with new_folder(tmp_path / "link", FILES, last="weights") as folder:
        fill(folder)
        assert folder.parent == target
    assert target.stat().st_ino == number
    assert tree(target) == {"weights": "ours", "text/train.npy": "ours"}
    assert (tmp_path / "link").is_symlink()


def test_what_came_to_the_place_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "run"

    def attempt() -> None:
        with new_folder(target, FILES) as folder:
            fill(folder)
            target.mkdir(exist_ok=True)
            (target / "notes").write_text("mine")

    for _ in ("made meanwhile", "there already"):
        with pytest.raises(OSError, match="not empty"):
            attempt()
        assert tree(tmp_path) == {"run/notes": "mine"}
        (target / "notes").unlink()


def test_a_killed_process_is_gone_on_with_and_a_living_one_is_not(tmp_path: Path) -> None:
    left = Partial(tmp_path / "run", FILES, keep=("text",))
    fill(left.path)
    with pytest.raises(FolderInUse):
        Partial(tmp_path / "run", FILES, exclusive=True)
    neighbour = Partial(tmp_path / "run", FILES)
    assert neighbour.path.name == "run.2.partial"
    left.release()
    second_partial = Partial(tmp_path / "run", FILES, keep=("text",), exclusive=True)
    assert second_partial.path == left.path
    assert tree(second_partial.path).keys() == {"text/train.npy", MARK, LOCK}


def test_an_unfinished_folder_of_another_target_or_with_a_users_file_is_left(
    tmp_path: Path,
) -> None:
    left = Partial(tmp_path / "run", FILES)
    (left.path / "notes").write_text("mine")
    left.release()
    other = Partial(tmp_path / "other", FILES)
    other.release()
    other.path.rename(tmp_path / "run.2.partial")
    assert Partial(tmp_path / "run", FILES).path.name == "run.3.partial"
    assert (left.path / "notes").read_text() == "mine"


def test_links_are_never_followed(tmp_path: Path) -> None:
    own_folder = tmp_path / "mine"
    own_folder.mkdir()
    fill(own_folder)
    (own_folder / MARK).write_text("")
    before = tree(own_folder)
    partial = Partial(tmp_path / "run", FILES)
    (partial.path / "text").symlink_to(own_folder / "text")
    (partial.path / "weights").symlink_to(own_folder / "weights")
    partial.remove()
    (tmp_path / "link").symlink_to(own_folder)
    clear(tmp_path / "link", FILES)
    remove(tmp_path / "link", FILES)
    write_file(tmp_path / "link", b"ours")  # takes the place of the link, not of what it names
    assert tree(own_folder) == before


@pytest.mark.parametrize("mark", ["", "../../*", "pellucid", "\0" * 9])
def test_a_folder_with_a_mark_that_is_not_ours_is_never_cleared(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "run.partial"
    folder.mkdir()
    fill(folder)
    (folder / MARK).write_text(mark)
    sweep(tmp_path)
    assert not is_free(folder)
    Partial(tmp_path / "run", FILES).remove()
    assert (folder / "weights").read_text() == "ours"


def test_replacing_takes_the_listed_files_and_leaves_the_others_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    folder.mkdir()
    fill(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "text" / "notes.txt").write_text("mine")
    write_folder(folder, FILES, lambda new: fill_with(new, "newer"), replace=True)
    assert tree(tmp_path) == {
        "step-1/weights": "newer",
        "step-1/notes.txt": "mine",
        "step-1/text/notes.txt": "mine",
    }


def fill_with(folder: Path, content: str) -> None:
    (folder / "weights").write_text(content)


def test_sweeping_takes_what_is_ours_and_not_held(tmp_path: Path) -> None:
    (tmp_path / "notes.partial").mkdir()
    (tmp_path / "mine.partial").write_text("mine")
    locked_partial, left_partial = Partial(tmp_path / "a", FILES), Partial(tmp_path / "b", FILES)
    fill(left_partial.path)
    left_partial.release()
    sweep(tmp_path, older_than=60.0)
    assert left_partial.path.exists()
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.partial", "mine.partial", "notes.partial"]
    locked_partial.remove()


@pytest.mark.skipif(os.name == "nt", reason="a user of Windows may make no links")
def test_a_link_to_itself_is_in_the_way_before_anything_is_prepared(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to("run")
    assert not is_free(tmp_path / "run")
    assert (tmp_path / "run").is_symlink()
