"""The folder that a client sees: every path it names, and every file below that path, is in it."""

from __future__ import annotations

import os
from pathlib import Path

from pellucid.errors import RunError


class Root:
    """A folder; no path leads out of it.

    Args:
        folder: the folder; it may itself be reached by a link.

    Raises:
        RunError: there is no such folder.
    """

    def __init__(self, folder: str | Path) -> None:
        if not Path(folder).is_dir():
            raise RunError(f"--root {folder} is no folder: name the folder that holds your runs")
        self.path = Path(folder).resolve()

    def locate(self, name: str) -> Path:
        """The file or folder of this name below the root.

        Raises:
            RunError: there is none; or the name has a "..", is outside, or passes a link.
        """
        parts = Path(name).parts
        if ".." in parts:
            raise RunError(f"{name!r} has a '..': name a path below the root, such as runs/my-run")
        path = self.path.joinpath(*parts)  # an absolute name replaces the root
        if not path.is_relative_to(self.path):
            raise RunError(f"{name!r} is outside the root: only what lies below it can be read")
        place = self.path
        for part in path.relative_to(self.path).parts:
            place = place / part
            if _is_link(place):
                raise RunError(f"{name!r} passes a symbolic link: name the real path instead")
        if not _exists(path):
            raise RunError(f"there is no {name!r} below the root: list_runs names the runs")
        return path

    def folder_of_run(self, name: str) -> Path:
        """The folder of this name, with no link in it that leads out.

        Raises:
            RunError: as `locate`, or it holds such a link.
        """
        path = self.locate(name)
        self.check_within(path)
        return path

    def check_within(self, path: Path) -> None:
        """Refuse a path below which a link leads out of the root.

        Raises:
            RunError: names the link.
        """
        for place, folders, files in os.walk(path):
            for entry in (Path(place) / name for name in (*folders, *files)):
                if _is_link(entry) and not self._contains_target(entry):
                    raise RunError(
                        f"{self.name_of(entry)} is a link that leads out of the root: it is not "
                        "read; move the file here, or start with another --root"
                    )

    def name_of(self, path: Path) -> str:
        """How a client calls a path."""
        return path.relative_to(self.path).as_posix()

    def _contains_target(self, link: Path) -> bool:
        try:
            return link.resolve().is_relative_to(self.path)
        except (OSError, RuntimeError):  # a link to itself
            return False


def _is_link(path: Path) -> bool:
    """Whether a path is a link, or a junction of Windows, which resolves elsewhere."""
    try:
        return path.is_symlink() or (os.name == "nt" and path.resolve() != path.absolute())
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a NUL in the name, or one that is too long
        return False
