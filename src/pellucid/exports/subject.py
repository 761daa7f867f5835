"""A run that leaves: its model, tokenizer and template, read once for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface import MULTI_LABEL, SINGLE_LABEL
from pellucid.errors import CheckpointError
from pellucid.exports.generation_defaults import special_ids
from pellucid.exports.tokenizer_files import template_of
from pellucid.model import Transformer, merged
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import Run, load
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A folder that other programs read.

    `family` is the architecture that the files name. `notes` are sentences about parts that were
    added without an effect, and about what a reader has to know.

    Attributes:
        folder: the new folder.
    """

    folder: Path
    family: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A trained model with all that leaves with it.

    Attributes:
        run: the config.
        folder: the run's folder.
        model: the built model, in evaluation mode; adapters are still apart.
        tensors: its weights by pellucid's names, adapters merged.
        tokenizer: its tokenizer.
        template: its chat template for other programs; None if it learnt no chats.
        step: the update after which the weights were saved; None if they were imported.
    """

    run: config.Run
    folder: RunFolder
    model: Transformer
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    template: str | None
    step: int | None

    @property
    def config(self) -> config.Transformer:
        """The model's config."""
        return self.run.model

    @property
    def ids(self) -> dict[str, int | None]:
        """The special tokens under the names of `config.json`."""
        words = self.tokenizer
        pad = words.id_of(words.roles().get("pad_token", ""))
        return special_ids(self.config, begin=words.begin_id, end=words.end_id, pad=pad)

    @property
    def problem_type(self) -> str | None:
        """The kind of classification in `config.json`; None for other models."""
        if not isinstance(self.config.head, config.ClassificationHead):
            return None
        objective = self.run.objective
        multi_label = isinstance(objective, config.Classification) and objective.multi_label
        return MULTI_LABEL if multi_label else SINGLE_LABEL


def open_subject(path: Path) -> Subject:
    """Open a run, or one of its checkpoints.

    Raises:
        RunError: there is no run.
        CheckpointError: its weights are damaged.
        TextError: its tokenizer or its template is damaged.
    """
    folder, checkpoint = existing_folder(path)
    opened = load(checkpoint or folder.path)
    tokenizer = opened.require_tokenizer()
    return Subject(
        run=opened.config,
        folder=folder,
        model=opened.model,
        tensors=merged(opened.model),
        tokenizer=tokenizer,
        template=template_of(folder, tokenizer),
        step=_step(opened),
    )


def _step(opened: Run) -> int | None:
    """The step of a checkpoint by its name; None if an import wrote it."""
    try:
        step = int(opened.checkpoint.name.rpartition("-")[2])
    except ValueError as error:
        raise CheckpointError(f"{opened.checkpoint} has no step in its name") from error
    trained = step > 0 or (opened.folder / "plan.json").is_file()
    return step if trained else None
