"""The folder of files that pellucid can make again: prepared text, compiled code.

Must not know: what the files hold.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path


def cache_folder(kind: str) -> Path | None:
    """The folder of that kind in `PELLUCID_CACHE`, or in the platform's folder for caches.

    None if the variable is "off", and for a user without a home folder.
    """
    requested = os.environ.get("PELLUCID_CACHE")
    if requested:
        return None if requested == "off" else Path(requested) / kind
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        place = home / "Library" / "Caches"
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return place / "pellucid" / kind


def private_folder(folder: Path) -> Path | None:
    """`folder` made, with its real path; None if another user could put something into it.

    A folder is private if it and all folders above belong to you or to the system, and no other
    user may write to them. (In a folder such as `/tmp` all users may write, but none may rename
    your files.) On a system without such rights, for example Windows, every folder passes.

    Raises:
        OSError: it cannot be made.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    real = Path(os.path.realpath(folder))
    return real if all(map(is_private, (real, *real.parents))) else None


def is_private(path: Path) -> bool:
    """Whether only you and the system can change this file, or the files in this folder."""
    if os.name != "posix":
        return True
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()) or stat.S_ISLNK(status.st_mode):
        return False
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return True
    shared = status.st_mode & stat.S_IWGRP and not _group_of_one(status.st_gid)
    return not shared and not status.st_mode & stat.S_IWOTH


def _group_of_one(group_id: int) -> bool:
    """Whether a group is the one that some systems give each user: of your name, with you in it."""
    import grp
    import pwd

    with suppress(KeyError):
        group, user = grp.getgrgid(group_id), pwd.getpwuid(os.geteuid())
        return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return False
