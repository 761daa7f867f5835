"""The tools that train: each is a command of pellucid in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from pellucid import children
from pellucid.errors import ConfigError, PellucidError, RunError
from pellucid.mcp.root import Root
from pellucid.reader import parse_json

#: Called now and then while a command works, with the seconds since its start.
Beats = Callable[[float], Awaitable[None]]
#: Seconds between two of these calls.
_BEAT = 5.0
_MAIN = "from pellucid.cli import main; sys.exit(main())"


def prove_command(root: Root, run: str, *, steps: int, seeds: int, fixes: int) -> list[str]:
    """The command that tries fixes on forks of a run.

    Args:
        root: the folder of the client.
        run: the run.
        steps: updates of each fork.
        seeds: pairs of forks for each fix.
        fixes: how many fixes.

    Raises:
        RunError: there is no such run.
    """
    path = root.folder_of_run(run)
    config_file = (
        path / "fixed.toml" if path == root.path else path.with_name(f"{path.name}-fixed.toml")
    )
    return [
        *("diagnose", str(path), "--prove", "--json", "--prove-out", str(config_file)),
        *("--prove-steps", str(steps), "--prove-seeds", str(seeds), "--prove-fixes", str(fixes)),
    ]


def compare_command(
    root: Root, variants: Sequence[str], data: Sequence[str], folder: str, flags: Iterable[str]
) -> list[str]:
    """The command that trains variants and compares them.

    Args:
        root: the folder of the client.
        variants: TOML files below the root, and names of presets.
        data: files and folders below the root.
        folder: the folder for the runs; it may be new.
        flags: the seeds and the budget.

    Raises:
        ConfigError: a variant names a file outside the root, or is none.
        RunError: a path is not below the root.
    """
    from pellucid.config import encode
    from pellucid.config.codec import flatten
    from pellucid.lab import design
    from pellucid.presets import PRESETS

    configs = [name if name in PRESETS else str(root.locate(name)) for name in variants]
    for name in configs:
        if name not in PRESETS and not name.endswith(".toml"):
            raise ConfigError(f"{name} is no variant: name TOML files, or presets such as nano")
    paths = [str(root.folder_of_run(name)) for name in data]
    place = _new_folder(root, folder)
    for variant in design([*configs, *paths]).variants:
        for key, value in flatten(encode(variant.run)).items():
            _refuse_outside(root, f"{variant.name}: {key}", value)
    # "--" ends the flags: a path may begin with "-"
    return ["compare", "--json", "--out", str(place), *flags, "--", *configs, *paths]


def _new_folder(root: Root, name: str) -> Path:
    """A folder for results, which need not exist; its parent does."""
    parent = root.locate(str(Path(name).parent))
    if Path(name).name in ("", ".."):
        raise ConfigError(f"folder must name one below the root, was {name!r}")
    path = parent / Path(name).name
    return root.folder_of_run(root.name_of(path)) if path.is_symlink() or path.exists() else path


def _refuse_outside(root: Root, key: str, value: object) -> None:
    """Refuse a value that reads as a path out of the root, or a list that holds one."""
    if isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            _refuse_outside(root, key, item)
    if isinstance(value, str):
        _refuse_path_outside(root, key, value)


def _refuse_path_outside(root: Root, key: str, text: str) -> None:
    path = Path(text)
    is_outside = path.is_absolute() or ".." in path.parts or text.startswith("~")
    try:
        is_outside = (is_outside and not path.is_relative_to(root.path)) or ".." in path.parts
        if (root.path / path).exists():
            root.folder_of_run(text)
    except (OSError, ValueError):  # no name of a file
        return
    except PellucidError:
        is_outside = True
    if is_outside:
        raise ConfigError(f"{key} names {text!r}, which is outside the root")


async def run_command(root: Root, words: Sequence[str], beat: Beats) -> dict[str, Any]:
    """Run a command of pellucid in the root; end it if the client gives up.

    Args:
        root: the folder of the client, and of the process.
        words: the command, with --json.
        beat: called every few seconds.

    Raises:
        RunError: the command refuses; says why.
    """
    child = children.start([*children.python(_MAIN), *words], errors=True, folder=root.path)
    started = time.monotonic()
    output: list[bytes] = []

    async def wait() -> None:
        output.extend(await anyio.to_thread.run_sync(child.communicate, abandon_on_cancel=True))
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while True:
                await anyio.sleep(_BEAT)
                await beat(time.monotonic() - started)
    finally:
        if child.poll() is None:
            child.terminate()  # it saves first
    text = output[0].decode("utf-8", "replace")
    if not text.strip():
        error = output[1].decode("utf-8", "replace").strip()
        raise RunError(f"the command ended with code {child.returncode}: {error[-500:]}")
    facts: dict[str, Any] = parse_json(text, "the command's result")
    if "error" in facts:
        raise RunError(str(facts["message"]))
    return facts
