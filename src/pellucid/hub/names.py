"""Which names are on a hub, and which are paths on this machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import RunError

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = re.compile(rf"({_PART}/{_PART})(?:@([A-Za-z0-9][A-Za-z0-9._/-]*))?")
#: A name with one of these beginnings is a path, even if nothing is there.
_PATHS = (".", "/", "~", "runs/")


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository on a hub: `owner/name`, and a branch, tag or commit if one is named.

    Attributes:
        repo: owner and name.
        revision: a branch, tag or commit; None for the default.
    """

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def hub_name(text: str | Path) -> HubName | None:
    """The repository that a text names, or None if it is a path.

    What exists is a path. So is a text that begins with `.`, `/`, `~` or `runs/`, or whose first
    part is a folder here. Then a slip of the finger asks no server.

    Args:
        text: what the user gave in place of a path.
    """
    if isinstance(text, Path):
        text = text.as_posix()
    match = _NAME.fullmatch(text)
    if match is None or text.startswith(_PATHS):
        return None
    if os.path.lexists(text) or Path(text.split("/")[0]).is_dir():
        return None
    return HubName(match[1], match[2])


def parse_hub_name(text: str) -> HubName:
    """The repository of a text that must be one, such as the target of a push.

    Raises:
        RunError: it has another form.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise RunError(f"{text!r} is no name on a hub: expected owner/name, such as ada/stories-3m")
    return HubName(match[1], match[2])


def local_model(source: str | Path) -> Path:
    """The folder of a model: `source` itself if it is a path, else the model of that name on a hub.

    One line on standard error says which server is asked; a second one what is downloaded.

    Args:
        source: a path, or `owner/name` or `owner/name@revision`.

    Raises:
        RunError: the hub does not have it, cannot be reached, or has no safetensors.
    """
    name = hub_name(source)
    if name is None:
        return Path(source)
    from pellucid.hub.download import fetch_model  # the library loads when it is needed

    return fetch_model(name)
