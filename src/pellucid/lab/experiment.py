"""The design of a comparison: its variants, their seeds, an equal budget, and its folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, cast

from pellucid import config
from pellucid.config import decode, encode
from pellucid.errors import ConfigError, RunError
from pellucid.json_text import json_text
from pellucid.lab.flops import with_flops
from pellucid.presets import PRESETS
from pellucid.reader import read_json_table
from pellucid.runs.resolve_config import resolve_config

#: The file of a comparison's folder that holds its design.
DESIGN = "comparison.json"
#: As many tokens as no held-out text has: all of it is evaluated.
_WHOLE_TEXT = 10**12
#: The number of a comparison's variants that a reader can still survey in pairs.
_MOST_VARIANTS = 64


class Choices(TypedDict, total=False):
    """The choices for all variants of a comparison; None chooses nothing.

    `steps`, `tokens`, `minutes`, `flops`: the budget of every run; at most one of them.
    `pellucid.train` has the others.
    """

    steps: int | None
    tokens: int | None
    minutes: float | None
    flops: float | None
    objective: str | None
    start: str | Path | None
    reward: str | None
    preset: str | None
    field: str | None
    columns: Iterable[str]
    device: str | None
    settings: Iterable[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A config, `run`, under its `name`. `tuned` has keys that tuning chose, with their values."""

    name: str
    run: config.Run
    tuned: tuple[tuple[str, Any], ...] = ()

    def with_seed(self, seed: int) -> config.Run:
        """The config of the run with a seed."""
        return replace(self.run, seed=seed)

    def folder(self, out: Path, seed: int) -> Path:
        """The folder of the run with a seed: its name follows from the config alone."""
        return out / f"{file_name(self.name)}-{digest(encode(self.with_seed(0)))}-seed-{seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The `keys` that each variant tunes, its `trials`, and the `storage` where optuna keeps them.

    `keys` are texts such as "learning_rate=1e-4..0.1", `choices` names with lists of values.
    """

    keys: tuple[str, ...]
    choices: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    trials: int = 10
    storage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The `variants`, the `seeds` of their reported runs, and the folder `out` that holds all runs.

    `tuning` comes first. `reward` judges answers: it names code, which the design, a file, has not.
    """

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    out: Path
    tuning: Tuning | None = None
    reward: str | None = None

    def design(self) -> dict[str, Any]:
        """The design as JSON."""
        return {
            "variants": [
                {"name": variant.name, "config": encode(variant.run), "tuned": dict(variant.tuned)}
                for variant in self.variants
            ],
            "seeds": list(self.seeds),
            "tuning": None if self.tuning is None else asdict(self.tuning),
        }


def design_of_one(
    words: Sequence[str | Path],
    kind: str,
    *,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    tuning: Tuning | None = None,
    choices: Choices,
) -> Experiment:
    """The experiment on one config: the one that the words name, or else the preset.

    Args:
        words: a TOML file or the name of a preset, if any; and paths of data.
        kind: the first word of the folder's name.
        seeds, out, tuning, choices: as for `design`.

    Raises:
        ConfigError: several configs; or as `design`.
    """
    configs = [word for word in words if is_variant(word)]
    if len(configs) > 1:
        raise ConfigError(
            f"`pellucid {kind}` is about one config, and these are {len(configs)} "
            f"({', '.join(map(str, configs))}): name one, or use `pellucid compare`"
        )
    if not configs:
        words = (choices.get("preset") or "nano", *words)
    experiment = design(words, seeds=seeds, out=out, tuning=tuning, choices=choices)
    if out is None:
        name = f"{kind}{experiment.out.name.removeprefix('compare')}"
        experiment = replace(experiment, out=experiment.out.with_name(name))
    return experiment


def design(
    words: Iterable[str | Path],
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path | None = None,
    tuning: Tuning | None = None,
    choices: Choices | None = None,
) -> Experiment:
    """The experiment that these words describe.

    Args:
        words: TOML files and names of presets: the variants; and paths of data.
        seeds: how many, from 0 on, or the seeds themselves.
        out: the folder of all runs; by default one under `runs/` whose name follows from the
            configs, so that the same call finds it again.
        tuning: what to tune for each variant, if anything.
        choices: the budget and the settings of all variants.

    Raises:
        ConfigError: no variant, an unknown key, two budgets, or configs that cannot be compared.
    """
    table = dict(choices or {})
    flops = cast("float | None", table.pop("flops", None))
    reward = cast("str | None", table.pop("reward", None))
    words = list(words)
    configs = [word for word in words if is_variant(word)]
    paths = [str(word) for word in words if not is_variant(word)]
    if not configs:
        raise ConfigError(
            "there is nothing to compare: name TOML files or presets, such as A.toml B.toml, and "
            "then the data"
        )
    if len(configs) > _MOST_VARIANTS:
        raise ConfigError(f"expected at most {_MOST_VARIANTS} variants, was {len(configs)}")
    if "-" in paths:
        raise ConfigError("every run reads the data again, and standard input ends: name a file")
    if flops is not None and any(table.get(key) for key in ("steps", "tokens", "minutes")):
        raise ConfigError("--steps, --tokens, --minutes and --flops: give one of them")
    runs = [_resolved(word, paths, table) for word in configs]
    if flops is not None:
        runs = [with_flops(run, flops) for run in runs]
    variants = tuple(
        Variant(name=name, run=run)
        for name, run in zip(_names(configs), _comparable(runs), strict=True)
    )
    return Experiment(
        variants=variants,
        seeds=_seeds(seeds),
        out=_default_folder(variants, tuning) if out is None else Path(out),
        tuning=tuning,
        reward=reward,
    )


def read_design(out: Path) -> Experiment:
    """The experiment whose design a folder holds.

    Raises:
        RunError: the folder has none.
    """
    file = out / DESIGN
    table = read_json_table(file)
    try:
        variants = tuple(
            Variant(
                name=str(entry["name"]),
                run=decode(config.Run, entry["config"]),
                tuned=tuple(entry["tuned"].items()),
            )
            for entry in table["variants"]
        )
        tuning = table["tuning"]
        return Experiment(
            variants=variants,
            seeds=_seeds(table["seeds"]),
            out=out,
            tuning=None if tuning is None else Tuning(**(tuning | {"keys": tuple(tuning["keys"])})),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file} is not the design of a comparison ({error!r})") from None


def digest(value: object) -> str:
    """Eight letters that name a value."""
    return hashlib.sha256(json_text(value, sort_keys=True).encode()).hexdigest()[:8]


def file_name(name: str) -> str:
    """A name without the characters that file systems refuse."""
    return re.sub(r"[^\w.-]+", "-", name)[:60].strip(".-") or "variant"


def is_variant(word: str | Path) -> bool:
    """Whether a word names a variant, a TOML file or a preset, and not data."""
    return str(word).endswith(".toml") or (str(word) in PRESETS and not Path(word).exists())


def _resolved(word: str | Path, paths: list[str], table: dict[str, Any]) -> config.Run:
    source = {"config_file" if str(word).endswith(".toml") else "preset": str(word)}
    try:
        return resolve_config(paths, **cast("Any", table | source))
    except ConfigError as error:
        raise ConfigError(f"{word}: {str(error).removeprefix(str(word)).lstrip(': ')}") from None


def _names(words: Sequence[str | Path]) -> list[str]:
    """A name for each variant: its file's, longer or numbered if two have the same."""
    names = [Path(str(word)).stem for word in words]
    if len(set(names)) < len(names):
        names = [str(Path(str(word)).with_suffix("")) for word in words]
    numbered: list[str] = []
    for name in names:
        number, free = 2, name
        while free in numbered:
            free, number = f"{name}-{number}", number + 1
        numbered.append(free)
    return numbered


def _comparable(runs: Sequence[config.Run]) -> list[config.Run]:
    """The configs with the same evaluation: how often, and on which held-out rows.

    Raises:
        ConfigError: they hold out different rows; names the key.
    """
    first = runs[0]
    for run in runs[1:]:
        for key in ("corpus", "held_out", "drop_duplicates"):
            left, right = getattr(first.text, key), getattr(run.text, key)
            if left != right:
                raise ConfigError(
                    f"text.{key} differs between variants ({left} and {right}), so their held-out "
                    "rows differ: give all variants the same one, and name the data after them"
                )
    same_rows = all(run.text == first.text for run in runs)
    n_tokens = first.training.evaluate_tokens if same_rows else _WHOLE_TEXT
    every = first.training.evaluate_every
    return [
        replace(
            run,
            seed=0,
            training=replace(run.training, evaluate_every=every, evaluate_tokens=n_tokens),
        )
        for run in runs
    ]


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ConfigError(
            f"seeds must be a number of at least 1, or different numbers of at least 0, was {seeds}"
        )
    return numbers


def _default_folder(variants: Sequence[Variant], tuning: Tuning | None) -> Path:
    """The folder that the same arguments find again; neither seeds nor trials change it."""
    name = "-".join(["compare", *(file_name(variant.name)[:20] for variant in variants[:3])])
    configs = [encode(variant.run) for variant in variants]
    searched = None if tuning is None else [list(tuning.keys), list(tuning.choices)]
    return Path("runs") / f"{name}-{digest([configs, searched])}"
