"""From what a user says to a whole config: preset, start, goal, file, settings, flags, in order.

Comes in: names, paths and assignments. Goes out: a `config.Run`, or a refusal. It does not know how
a run is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from pellucid import config
from pellucid.config import base_of, encode, overlay, run_from_table
from pellucid.errors import ConfigError
from pellucid.presets import ObjectivePreset, find, find_objective
from pellucid.saved_runs.folder import home_of
from pellucid.saved_runs.initial_weights import config_of
from pellucid.saved_runs.load import read_toml

T = TypeVar("T")

#: What `--lora RANK` adapts: every linear layer of every block.
_LORA_TARGETS = ("*.blocks.*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long to train; at most one of these is given."""

    steps: int | None = None
    tokens: int | None = None
    minutes: float | None = None
    epochs: float | None = None

    def budget(self) -> config.Budget | None:
        """The one that is given.

        Raises:
            ConfigError: more than one, or one that is not above zero.
        """
        kinds: dict[str, Callable[..., config.Budget]] = {
            "steps": config.Steps,
            "tokens": config.Tokens,
            "minutes": config.Minutes,
            "epochs": config.Epochs,
        }
        counts = {name: getattr(self, name) for name in kinds if getattr(self, name) is not None}
        if len(counts) > 1:
            raise ConfigError("--steps, --tokens, --minutes and --epochs: give one of them")
        for name, count in counts.items():
            try:
                return kinds[name](count=count)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
        return None


def choose(
    paths: Iterable[str | Path] = (),
    *,
    goal: str | None = None,
    start: str | Path | None = None,
    teacher: str | Path | None = None,
    lora: int | None = None,
    field: str | None = None,
    columns: Iterable[str] = (),
    preset: str | None = None,
    config_file: str | Path | None = None,
    length: Length | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Iterable[str] = (),
) -> config.Run:
    """The config that the arguments of `train` describe.

    Raises:
        ConfigError: an unknown preset, objective, key or kind, or more than one length.
    """
    file_table = {} if config_file is None else read_toml(Path(config_file))
    aim = None if goal is None else find_objective(goal)
    base = preset or ("nano" if aim is None else aim.preset)
    if "format" in file_table and start is not None:
        raise ConfigError(
            f"--from {start}: {config_file} is the whole config of a run, and says itself what it "
            "begins with: take its format out to lay it over another start, or leave --from out"
        )
    if "format" in file_table:
        # a run's own, and whole: what is learnt may be another thing, no more
        table: dict[str, Any] = _aimed(file_table, aim)
    else:
        above = dict(file_table)
        table = encode(find(base_of(above) or base))
        if start is not None:  # a model is taken whole: nothing of the preset's stands below it
            table["model"] = {}
        for layer in (_of_start(start, aim), _of_goal(aim, tuned=start is not None), above):
            table = overlay(table, layer)
    if teacher is not None:
        table = overlay(table, _of_teacher(Path(teacher)))
    run = run_from_table(table, find, settings)
    run = _with_data(run, tuple(str(path) for path in paths), field, tuple(columns))
    budget = (length or Length()).budget() or run.training.budget
    device = run.training.device if device is None else device
    training = replace(run.training, budget=budget, device=device)
    run = replace(run, seed=run.seed if seed is None else seed, training=training)
    if lora is None:
        return run
    adapters = config.LoRA(rank=lora, alpha=2.0 * lora, dropout=0.0, targets=_LORA_TARGETS)
    return replace(run, trained=adapters)


def _aimed(table: dict[str, Any], aim: ObjectivePreset | None) -> dict[str, Any]:
    """A whole config with the objective that was asked for, where it has another."""
    if aim is None or table.get("objective", {}).get("kind") == encode(aim.objective)["kind"]:
        return table
    return overlay(table, _of_goal(aim, tuned=False))


def _of_start(start: str | Path | None, aim: ObjectivePreset | None) -> dict[str, Any]:
    """The model and the tokenizer of what the run goes on from."""
    if start is None:
        return {}
    begun = config_of(Path(start))
    model = replace(begun.model, head=_head(begun.model, aim))
    if aim is not None and not aim.dropout:
        model = _without_dropout(model)
    return {
        "start": str(start),
        "model": encode(model),
        "text": {"tokenizer": _tokenizer_of(Path(start)), "special": []},
    }


def _without_dropout(model: config.Transformer) -> config.Transformer:
    """The model with every dropout of its stacks at 0."""

    def stack(layers: config.Stack | None) -> config.Stack | None:
        return None if layers is None else _dry(replace(layers, attention=_dry(layers.attention)))

    return replace(model, encoder=stack(model.encoder), decoder=stack(model.decoder))


def _dry(part: T) -> T:
    if isinstance(part, config.Alternating):
        return cast("T", replace(part, layers=tuple(_dry(layer) for layer in part.layers)))
    has = any(field.name == "dropout" for field in fields(cast("Any", part)))
    return cast("T", replace(cast("Any", part), dropout=0.0)) if has else part


def _of_teacher(teacher: Path) -> dict[str, Any]:
    """A student has its teacher's tokenizer, and a row for each token that the teacher knows."""
    return {
        "objective": {"kind": "Distillation", "teacher": str(teacher)},
        "model": {"vocab_size": config_of(teacher).model.rows},
        "text": {"tokenizer": _tokenizer_of(teacher), "special": []},
    }


def _tokenizer_of(path: Path) -> dict[str, Any]:
    """The tokenizer of a run, of the run that a checkpoint is of, or of a published model."""
    return encode(config.FromFile(path=str(home_of(path))))


def _head(model: config.Transformer, aim: ObjectivePreset | None) -> config.Head:
    """The head that the goal needs: the model's own where it is of that kind, else a new one."""
    goal_head = config.PLAIN_HEAD if aim is None or aim.head is None else aim.head
    if aim is None or isinstance(model.head, type(goal_head)):
        return model.head
    if isinstance(goal_head, config.ClassificationHead) and model.pooler:
        return replace(goal_head, pooling="first")
    return goal_head


def _of_goal(aim: ObjectivePreset | None, *, tuned: bool) -> dict[str, Any]:
    if aim is None:
        return {}
    table: dict[str, Any] = {"objective": encode(aim.objective)}
    if aim.head is not None and not tuned:
        table["model"] = {"head": encode(aim.head)}
    if aim.special and not tuned:
        table["text"] = {"special": list(aim.special)}
    return table | (dict(aim.tuning) if tuned else {})


def _with_data(
    run: config.Run, paths: tuple[str, ...], field: str | None, columns: tuple[str, ...]
) -> config.Run:
    """The run with the files that were named, read as its objective has them."""
    corpus: config.Corpus = run.text.corpus
    (kind, *_) = config.data_for(run.objective)
    if not issubclass(kind, config.Rows):
        if columns:
            raise ConfigError(
                f"--columns {','.join(columns)}: objective {type(run.objective).__name__} reads "
                "documents, which have no columns: name what holds the text with --field"
            )
        if paths:
            corpus = config.Files(paths=paths, field=field)
        elif field is not None:
            corpus = _with_field(corpus, field)
    else:
        if field is not None:
            raise ConfigError(
                f"--field {field}: rows have several fields; say --columns NAME={field}"
            )
        if paths:
            corpus = kind(paths=paths)
        if columns and isinstance(corpus, config.Rows):
            corpus = with_columns(corpus, columns)
    return replace(run, text=replace(run.text, corpus=corpus))


def with_columns(corpus: config.Rows, columns: tuple[str, ...]) -> config.Rows:
    """The rows with columns chosen as "NAME=COLUMN".

    Raises:
        ConfigError: no such part of a row.
    """
    names = [field.name for field in fields(corpus) if field.name != "paths"]
    chosen: dict[str, Any] = {}
    for column in columns:
        name, equals, value = column.partition("=")
        if not equals or name not in names:
            raise ConfigError(
                f"--columns {column}: expected one of {', '.join(names)} and what holds it, such "
                f"as {names[0]}=COLUMN"
            )
        chosen[name] = value
    return replace(corpus, **chosen)


def _with_field(corpus: config.Corpus, field: str) -> config.Files:
    if isinstance(corpus, config.Files):
        return replace(corpus, field=field)
    raise ConfigError(
        f"--field {field}: the corpus is {type(corpus).__name__}, which has no fields: name the "
        "files too"
    )
