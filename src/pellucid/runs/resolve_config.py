"""From a user's choices to a config: preset, start, objective, file, settings, in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, cast

from pellucid import config
from pellucid.config import base_of, encode, overlay, run_from_table
from pellucid.data.shards.folder import prepared_folder
from pellucid.errors import ConfigError
from pellucid.hub import local_model
from pellucid.presets import ObjectivePreset, find, find_objective
from pellucid.saved_runs.folder import home_of
from pellucid.saved_runs.initial_weights import config_of
from pellucid.saved_runs.load import read_toml

T = TypeVar("T")

#: The layers that `--lora RANK` adapts: every linear layer of every block.
_LORA_TARGETS = ("*.blocks.*",)

_BUDGETS: dict[str, Callable[..., config.Budget]] = {
    "steps": config.Steps,
    "tokens": config.Tokens,
    "minutes": config.Minutes,
    "epochs": config.Epochs,
}


class RunChoices(TypedDict, total=False):
    """The choices for a run's config; the preset gives everything else. None chooses nothing.

    See `resolve_config` for each of them.
    """

    objective: str | None
    start: str | Path | None
    teacher: str | Path | None
    lora: int | None
    field: str | None
    columns: Iterable[str]
    preset: str | None
    config_file: str | Path | None
    steps: int | None
    tokens: int | None
    minutes: float | None
    epochs: float | None
    seed: int | None
    device: str | None
    settings: Iterable[str]


def resolve_config(paths: Iterable[str | Path] = (), **choices: Unpack[RunChoices]) -> config.Run:
    """The config that your choices describe.

    Args:
        paths: files, folders, patterns or "-".
        **choices: any of these.

            `objective`: the objective's short name ("sft", "mlm", ...); by default the preset's.
            `start`: a run or a published model to start from: its weights and its tokenizer.
            `teacher`: a run or a published model to distil from.
            `lora`: the rank of adapters to train; the weights themselves stay as they are.
            `field`: the field of a table that holds the text.
            `columns`: which column of a table holds what, such as "source=english", or several,
                "source=english,target=german".
            `preset`: the preset for everything that you do not choose; by default the objective's,
            and `nano-docs` if you choose no text either.
            `config_file`: a TOML file whose settings override the preset; `base` names another.
            `steps`, `tokens`, `minutes`, `epochs`: how long to train; at most one of them.
            `seed`: the seed of weights, order and dropout.
            `device`: the device to train on, such as "cpu" or "cuda:1".
            `settings`: assignments such as "training.batch_size=16". They override preset and
            file; the other choices override them.

    Raises:
        ConfigError: an unknown preset, objective, key or kind, more than one length, or adapters
            without a run to start from.
        TypeError: a choice that is none of these.
    """
    if unknown := choices.keys() - RunChoices.__annotations__.keys():
        raise TypeError(
            f"{min(unknown)!r} is no choice of a run; the choices are: "
            f"{', '.join(RunChoices.__annotations__)}"
        )
    start, seed, device = choices.get("start"), choices.get("seed"), choices.get("device")
    start = None if start is None else local_model(start)
    name, teacher, lora = choices.get("objective"), choices.get("teacher"), choices.get("lora")
    objective = None if name is None else find_objective(name)
    paths, settings = tuple(str(path) for path in paths), tuple(choices.get("settings", ()))
    preset = choices.get("preset")
    has_text = bool(paths) or any(setting.startswith("text.corpus") for setting in settings)
    if not (has_text or preset or name or start or choices.get("config_file")):
        preset = "nano-docs"
    table = _config_table(objective, start, preset, choices.get("config_file"))
    if teacher is not None:
        table = overlay(table, _teacher_table(local_model(teacher)))
    run = run_from_table(table, find, settings)
    run = _with_data(run, paths, choices.get("field"), tuple(choices.get("columns", ())))
    training = replace(
        run.training,
        budget=_find_budget(choices) or run.training.budget,
        device=run.training.device if device is None else device,
    )
    run = replace(run, seed=run.seed if seed is None else seed, training=training)
    if lora is None:
        return run
    if run.start is None:
        raise ConfigError("--lora adapts trained weights: name a run or a model with --from")
    adapters = config.LoRA(rank=lora, alpha=2.0 * lora, dropout=0.0, targets=_LORA_TARGETS)
    return replace(run, trained=adapters)


def _find_budget(choices: RunChoices) -> config.Budget | None:
    lengths = cast("Mapping[str, Any]", choices)
    counts = {name: lengths[name] for name in _BUDGETS if lengths.get(name) is not None}
    if len(counts) > 1:
        raise ConfigError("--steps, --tokens, --minutes and --epochs: give one of them")
    for name, count in counts.items():
        try:
            return _BUDGETS[name](count=count)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
    return None


def _config_table(
    objective: ObjectivePreset | None,
    start: str | Path | None,
    preset: str | None,
    config_file: str | Path | None,
) -> dict[str, Any]:
    """The tables of preset, start, objective and file; each overrides the ones before it."""
    file_table = {} if config_file is None else read_toml(Path(config_file))
    if "format" in file_table:  # the whole config of a run: only its objective may change
        if start is not None:
            raise ConfigError(
                f"--from {start}: {config_file} is the whole config of a run, and names its own "
                "start: remove its format to combine it with another start, or leave --from out"
            )
        return _with_objective(file_table, objective)
    base = preset or ("nano" if objective is None else objective.preset)
    file_settings = dict(file_table)
    table = encode(find(base_of(file_settings) or base))
    if objective is not None and config.Files not in config.data_for(objective.objective):
        table["training"].pop("growth", None)  # a preset means rows of text, and these are examples
    if start is not None:  # the model of the start replaces all of the preset's
        table["model"] = {}
    table = overlay(table, _start_table(start, objective))
    table = overlay(table, _objective_table(objective, tuned=start is not None))
    return overlay(table, file_settings)


def _with_objective(table: dict[str, Any], objective: ObjectivePreset | None) -> dict[str, Any]:
    """A whole config with another objective, unless it has that already."""
    if (
        objective is None
        or table.get("objective", {}).get("kind") == encode(objective.objective)["kind"]
    ):
        return table
    return overlay(table, _objective_table(objective, tuned=False))


def _start_table(start: str | Path | None, objective: ObjectivePreset | None) -> dict[str, Any]:
    """The model and the tokenizer of the run or published model to start from."""
    if start is None:
        return {}
    start_model = config_of(Path(start)).model
    model = replace(start_model, head=_choose_head(start_model, objective))
    if objective is not None and not objective.dropout:
        model = _without_dropout(model)
    return {
        "start": str(start),
        "model": encode(model),
        "text": {"tokenizer": _tokenizer_table(Path(start)), "special": []},
    }


def _without_dropout(model: config.Transformer) -> config.Transformer:
    """The model with every dropout of its stacks at 0."""

    def change(stack: config.Stack | None) -> config.Stack | None:
        if stack is None:
            return None
        attention = config.map_kinds(stack.attention, _zero_dropout)
        return _zero_dropout(replace(stack, attention=attention, embedding_dropout=None))

    return replace(model, encoder=change(model.encoder), decoder=change(model.decoder))


def _zero_dropout(part: T) -> T:
    has_dropout = any(field.name == "dropout" for field in fields(cast("Any", part)))
    return cast("T", replace(cast("Any", part), dropout=0.0)) if has_dropout else part


def _teacher_table(teacher: Path) -> dict[str, Any]:
    """A student's settings: its teacher's tokenizer, and a row for each token of the teacher."""
    return {
        "objective": {"kind": "Distillation", "teacher": str(teacher)},
        "model": {"vocab_size": config_of(teacher).model.rows},
        "text": {"tokenizer": _tokenizer_table(teacher), "special": []},
    }


def _tokenizer_table(path: Path) -> dict[str, Any]:
    """The tokenizer of a run, of a checkpoint's run, or of a published model."""
    return encode(config.FromFile(path=str(home_of(path))))


def _choose_head(model: config.Transformer, objective: ObjectivePreset | None) -> config.Head:
    """The head that the objective needs: the model's own if it is of that kind, else a new one."""
    needed_head = (
        config.PLAIN_HEAD if objective is None or objective.head is None else objective.head
    )
    if objective is None or isinstance(model.head, type(needed_head)):
        return model.head
    if isinstance(needed_head, config.ClassificationHead) and model.pooler:
        return replace(needed_head, pooling="first")
    return needed_head


def _objective_table(objective: ObjectivePreset | None, *, tuned: bool) -> dict[str, Any]:
    if objective is None:
        return {}
    table: dict[str, Any] = {"objective": encode(objective.objective)}
    if objective.head is not None and not tuned:
        table["model"] = {"head": encode(objective.head)}
    if objective.special and not tuned:
        table["text"] = {"special": list(objective.special)}
    return table | (dict(objective.tuning) if tuned else {})


def _with_data(
    run: config.Run, paths: tuple[str, ...], field: str | None, columns: tuple[str, ...]
) -> config.Run:
    """The run with other files for its corpus, of the kind that its objective reads."""
    corpus: config.Corpus = run.text.corpus
    (kind, *_) = config.data_for(run.objective)
    if not issubclass(kind, config.Rows):
        if columns:
            raise ConfigError(
                f"--columns {','.join(columns)}: objective {type(run.objective).__name__} reads "
                "documents, which have no columns: name the field of the text with --field"
            )
        prepared = prepared_folder(paths, field)
        if prepared is not None:
            return replace(run, text=_with_prepared(run.text, prepared))
        if paths:
            corpus = config.Files(paths=paths, field=field)
        elif field is not None:
            corpus = _with_field(corpus, field)
    else:
        if field is not None:
            raise ConfigError(
                f"--field {field}: rows have several fields; pass --columns NAME={field}"
            )
        if paths:
            corpus = kind(paths=paths)
        if columns and isinstance(corpus, config.Rows):
            corpus = with_columns(corpus, columns)
    return replace(run, text=replace(run.text, corpus=corpus))


def _with_prepared(text: config.Text, path: str) -> config.Text:
    """The text with a prepared folder, and its tokenizer, unless a start has an equal one."""
    is_named = isinstance(text.tokenizer, config.FromFile)
    tokenizer = text.tokenizer if is_named else config.FromFile(path=path)
    return replace(text, corpus=config.Prepared(path=path), tokenizer=tokenizer)


def with_columns(corpus: config.Rows, columns: tuple[str, ...]) -> config.Rows:
    """The corpus with its columns named by assignments such as "source=english".

    Raises:
        ConfigError: the corpus has no such column.
    """
    names = [field.name for field in fields(corpus) if field.name != "paths"]
    column_names: dict[str, Any] = {}
    for column in (part for text in columns for part in re.split(r",(?=\w+=)", text)):
        name, equals, value = column.partition("=")
        if not equals or name not in names:
            raise ConfigError(
                f"--columns {column}: expected one of {', '.join(names)} and its column, such as "
                f"{names[0]}=COLUMN"
            )
        column_names[name] = value
    return replace(corpus, **column_names)


def _with_field(corpus: config.Corpus, field: str) -> config.Files:
    if isinstance(corpus, config.Files):
        return replace(corpus, field=field)
    raise ConfigError(
        f"--field {field}: the corpus is {type(corpus).__name__}, which has no fields: name the "
        "files too"
    )
