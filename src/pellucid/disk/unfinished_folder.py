"""An unfinished folder: made next to its target, marked as ours, locked by one process.

    NAME.partial/     becomes NAME; NAME.2.partial if that name is taken

pellucid recognises the folder of a killed process by its mark, and continues or clears it. It never
touches a folder or file without the mark.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.disk.removal import (
    LOCK,
    MARK,
    clear,
    read_mark,
    remove,
    remove_empty,
    remove_file,
    write_mark,
)
from pellucid.disk.rename import move

if TYPE_CHECKING:
    import filelock

#: The suffix of an unfinished folder.
PARTIAL = ".partial"

_WINDOWS = os.name == "nt"
_MAX_ATTEMPTS = 1000


class FolderInUse(OSError):  # noqa: N818  a state of the folder, for which callers have a message
    """Another process is writing the same folder at this moment."""


class Partial:
    """An unfinished folder for `target`, held by this process.

    It lies next to the target. If the target is an empty folder already, it lies in there: pellucid
    fills a folder of yours, and never replaces it. It follows a link to such a folder, or to
    nothing.

    Args:
        target: the folder to make.
        files: the names that will be written, as patterns; no other file is ever removed.
        keep: names at its top that stay if a killed process left them.
        exclusive: whether to refuse if another process writes the same folder.

    Raises:
        FolderInUse: another process does, and `exclusive` is set.
        OSError: the folder cannot be made.
    """

    def __init__(
        self,
        target: Path,
        files: Sequence[str],
        *,
        keep: Sequence[str] = (),
        exclusive: bool = False,
    ) -> None:
        real = os.path.realpath(target) if is_free(target) else os.path.realpath(target.parent)
        self.target = Path(real) if is_free(target) else Path(real, target.name)
        self.files = (*files, MARK, LOCK)
        self._is_inside_target = self.target.is_dir() and is_free(self.target)
        place = self.target if self._is_inside_target else self.target.parent
        self._created_parents = [folder for folder in self.target.parents if not folder.exists()]
        place.mkdir(parents=True, exist_ok=True)
        self.path, self._lock = self._claimed(place, keep, exclusive)

    def _claimed(
        self, place: Path, keep: Sequence[str], exclusive: bool
    ) -> tuple[Path, filelock.BaseFileLock]:
        for number in range(1, _MAX_ATTEMPTS):
            middle = "" if number == 1 else f".{number}"
            path = place / f"{self.target.name}{middle}{PARTIAL}"
            try:
                os.mkdir(path)
                self._mark_as_ours(path)
            except FileExistsError:
                if read_mark(path, self.target) is None:
                    continue  # not ours
            lock = _acquired(path)
            if lock is None:
                if exclusive:
                    raise FolderInUse(
                        errno.EBUSY, "another process is writing it", str(self.target)
                    )
                continue
            leftovers = read_mark(path, self.target)
            if leftovers is None:  # its process finished it at this moment
                lock.release()
                continue
            clear(path, [file for file in leftovers if file not in (MARK, LOCK)], keep)
            if any(entry.name not in (MARK, LOCK, *keep) for entry in path.iterdir()):
                lock.release()  # there are files that are not ours
                continue
            write_mark(path, self.target, self.files)
            return path, lock
        raise FileExistsError(errno.EEXIST, "too many unfinished folders", str(self.target))

    def _mark_as_ours(self, path: Path) -> None:
        try:
            write_mark(path, self.target, self.files)
        except OSError:  # a full disk: half a mark is none
            remove_file(path / MARK)
            remove_empty(path)
            raise

    def place(self, *, last: str = "") -> None:
        """Give the folder its name, or move its content into an empty folder of the user's.

        Args:
            last: the entry to move last; the folder counts as finished once it is there.

        Raises:
            OSError: the target is not empty any more; it stays as it is.
        """
        if self._is_inside_target:
            self._pour(last)
            self.remove()
            return
        if _WINDOWS:  # which renames no folder with an open file in it
            self._lock.release()
        move(self.path, self.target)
        for name in (MARK, LOCK):
            remove_file(self.target / name)
        self._lock.release()

    def _pour(self, last: str) -> None:
        if any(entry != self.path for entry in self.target.iterdir()):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty any more", str(self.target))
        names = [entry.name for entry in self.path.iterdir() if entry.name not in (MARK, LOCK)]
        moved_names: list[str] = []
        try:
            for name in sorted(names, key=lambda name: name == last):
                moved_names.append(name)
                move(self.path / name, self.target / name)
        except BaseException:
            for name in moved_names:
                if (self.target / name).exists() and not (self.path / name).exists():
                    move(self.target / name, self.path / name)
            raise

    def release(self) -> None:
        """Leave the folder for a process that continues it."""
        self._lock.release()

    def remove(self) -> None:
        """Remove the files written in it, and its new parent folders once they are empty."""
        clear(self.path, self.files[:-2])
        _drop(self.path, self._lock)
        for folder in self._created_parents:
            remove_empty(folder)


@contextmanager
def new_folder(
    target: Path,
    files: Sequence[str],
    *,
    keep: Sequence[str] = (),
    exclusive: bool = False,
    last: str = "",
) -> Generator[Path]:
    """A folder to fill: it becomes `target` at the end; after an error its files are removed.

    Args:
        target: the folder to make.
        files: as for `Partial`.
        keep: as for `Partial`.
        exclusive: as for `Partial`.
        last: as for `Partial.place`.

    Raises:
        OSError: as `Partial`, or the target is not empty any more.
    """
    partial = Partial(target, files, keep=keep, exclusive=exclusive)
    try:
        yield partial.path
        partial.place(last=last)
    except BaseException:
        partial.remove()
        raise


def is_free(target: Path) -> bool:
    """Whether `target` is missing, or a folder that is empty but for our own unfinished work."""
    if not os.path.lexists(target):
        return True
    target = Path(os.path.realpath(target))
    if not os.path.lexists(target):  # a link to nothing; one to itself is still there
        return True
    return target.is_dir() and all(
        read_mark(entry, target) is not None for entry in _entries(target)
    )


def sweep(place: Path, *, older_than: float = 0.0) -> None:
    """Remove the unfinished folders of killed processes that are older than so many seconds."""
    for path in _entries(place):
        marked_files = read_mark(path) if path.name.endswith(PARTIAL) else None
        if marked_files is None:
            continue
        with suppress(OSError):
            newest = max(entry.lstat().st_mtime for entry in (path, *path.rglob("*")))
            lock = _acquired(path) if newest <= time.time() - older_than else None
            if lock is not None:
                clear(path, [file for file in marked_files if file not in (MARK, LOCK)])
                _drop(path, lock)


def _acquired(path: Path) -> filelock.BaseFileLock | None:
    """The lock of an unfinished folder; None if another process has it, or the folder is gone."""
    import filelock  # every command loads this room, and most write no folder

    lock = filelock.FileLock(path / LOCK, blocking=False)
    try:
        lock.acquire()
    except (filelock.Timeout, FileNotFoundError, NotADirectoryError):
        return None
    return lock


def _drop(path: Path, lock: filelock.BaseFileLock) -> None:
    """Remove our marks from a folder, and the folder if it is then empty."""
    if _WINDOWS:  # which removes no open file
        lock.release()
    remove(path, (MARK, LOCK))
    lock.release()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
