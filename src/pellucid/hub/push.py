"""A folder of a published model to a repository on a hub; private unless you say otherwise."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub

from pellucid.errors import RunError
from pellucid.hub.names import HubName
from pellucid.hub.refusals import endpoint, is_offline, progress_bars, refusing

#: The folder of packed matrices, which each machine makes for itself.
_PACKED = "packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A model on a hub.

    Attributes:
        name: its repository.
        address: of its page.
        commit: the id of the new version.
        private: whether only you and those you invite can see it.
        n_bytes: of all of its files.
    """

    name: str
    address: str
    commit: str
    private: bool
    n_bytes: int


def push_folder(
    folder: Path, name: HubName, *, private: bool, message: str = "Upload a model"
) -> Pushed:
    """Upload all files of a folder to a repository, which is made if there is none.

    One line on standard error says what goes where before anything is sent.

    Args:
        folder: the files of the model.
        name: the repository; without a revision.
        private: whether a new repository is private. An existing one stays as it is: if it is
            public and `private` is true, nothing is sent.
        message: of the commit.

    Raises:
        RunError: the hub refuses or cannot be reached, the repository is public but should not be,
            or connections are forbidden.
    """
    if name.revision is not None:
        raise RunError(f"a push goes to the newest version: name the model {name.repo} alone")
    if is_offline():
        raise RunError("HF_HUB_OFFLINE forbids connections: unset it to push a model")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in files if path.relative_to(folder).parts[0] != _PACKED]
    n_bytes = sum(path.stat().st_size for path in files)
    visibility = "private" if private else "public"
    target = f"{endpoint()}/{name.repo}"
    print(
        f"sending {len(files)} files, {n_bytes:,} bytes, to {target} ({visibility})",
        file=sys.stderr,
    )
    api = huggingface_hub.HfApi(endpoint=endpoint())
    with refusing(f"the model {name.repo}"):
        api.create_repo(name.repo, private=private, exist_ok=True)
        is_private = bool(api.repo_info(name.repo).private)
        if private and not is_private:
            raise RunError(
                f"{name.repo} exists and is public, so nothing was sent: pass --public if "
                "everyone may see the model, or choose another name"
            )
        with progress_bars():
            commit = api.upload_folder(
                repo_id=name.repo,
                folder_path=folder,
                commit_message=message,
                ignore_patterns=[f"{_PACKED}/*"],
            )
    return Pushed(
        name=name.repo,
        address=target,
        commit=commit.oid,
        private=is_private,
        n_bytes=n_bytes,
    )
