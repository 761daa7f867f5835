"""The config that a word names: a preset, a TOML file, a run's folder, a published model."""

from __future__ import annotations

from pathlib import Path

from pellucid.config import Run, encode, run_from_table
from pellucid.errors import ConfigError
from pellucid.presets import PRESETS, find


def read_config_source(word: str, settings: list[str]) -> tuple[str, Run]:
    """The name of a config, and the config.

    Args:
        word: A preset's name, a TOML file, a run's folder, or a published model's.
        settings: Assignments of `--set`.

    Raises:
        ConfigError: it is none of them, or it cannot be read.
    """
    if word in PRESETS:
        return word, run_from_table({"base": word}, find, settings)
    if word.endswith(".toml"):
        from pellucid.runs.resolve_config import resolve_config

        return Path(word).stem, resolve_config(config_file=word, settings=settings)
    return read_folder(word, settings)


def read_folder(path: str, settings: list[str]) -> tuple[str, Run]:
    """The name and the config of a run, or of a published model in a folder or on a hub.

    Args:
        path: The folder, or a name on a hub.
        settings: Assignments of `--set`.

    Raises:
        ConfigError: there is no such folder, and no preset of this name.
    """
    from pellucid.hub import hub_name, local_model

    if hub_name(path) is not None:
        path = str(local_model(path))
    if not Path(path).exists():
        try:
            find(path)
        except ConfigError as error:
            raise ConfigError(f"{error}; and no run's folder has this name") from None
    from pellucid.runs import existing_folder
    from pellucid.saved_runs.folder import is_published
    from pellucid.saved_runs.load import read_config
    from pellucid.saved_runs.published import published_config

    if is_published(Path(path)):
        table = encode(published_config(Path(path)))
        return Path(path).resolve().name, run_from_table(table, find, settings)
    folder, _ = existing_folder(Path(path))
    run = read_config(folder)
    return folder.path.resolve().name, run_from_table(encode(run), find, settings)
