"""From what a user says to a whole config: preset, file, settings, flags, in that order.

Comes in: names, paths and assignments. Goes out: a `config.Run`, or a refusal. It does not know how
a run is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.config import run_from_table
from pellucid.errors import ConfigError
from pellucid.presets import find
from pellucid.runs.load import read_toml


def choose(
    paths: Iterable[str | Path] = (),
    *,
    field: str | None = None,
    preset: str = "nano",
    config_file: str | Path | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Iterable[str] = (),
) -> config.Run:
    """The config that the arguments of `train` describe.

    Raises:
        ConfigError: an unknown preset, key or kind, or more than one length.
    """
    said = {} if config_file is None else read_toml(Path(config_file))
    # a file that says its format is a run's own, and whole: nothing stands below it
    table: dict[str, Any] = said if "format" in said else {"base": preset} | said
    run = run_from_table(table, find, settings)
    lengths = (
        ("steps", config.Steps, steps),
        ("tokens", config.Tokens, tokens),
        ("minutes", config.Minutes, minutes),
    )
    chosen = [_budget(name, kind, n) for name, kind, n in lengths if n is not None]
    if len(chosen) > 1:
        raise ConfigError("--steps, --tokens and --minutes: give one of them")
    names = tuple(str(path) for path in paths)
    if names:
        run = replace(run, text=replace(run.text, corpus=config.Files(paths=names, field=field)))
    elif field is not None:
        run = replace(run, text=replace(run.text, corpus=_with_field(run.text.corpus, field)))
    training = replace(
        run.training,
        budget=chosen[0] if chosen else run.training.budget,
        device=run.training.device if device is None else device,
    )
    return replace(run, seed=run.seed if seed is None else seed, training=training)


def _with_field(corpus: config.Corpus, field: str) -> config.Files:
    if isinstance(corpus, config.Files):
        return replace(corpus, field=field)
    raise ConfigError(
        f"--field {field}: the corpus is {type(corpus).__name__}, which has no fields: name the "
        "files too"
    )


def _budget(name: str, kind: Callable[..., config.Budget], count: float) -> config.Budget:
    try:
        return kind(count=count)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
