"""Where things are kept that can be made again: prepared text, compiled code.

Comes in: what kind of thing. Goes out: a folder, which may not be there yet. It does not know what
is kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(kind: str) -> Path | None:
    """The folder of that kind in `PELLUCID_CACHE`, or in the platform's place for caches.

    None for "off", and for a user without a home folder.
    """
    chosen = os.environ.get("PELLUCID_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen) / kind
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
