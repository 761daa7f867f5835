"""The model that is distilled from: found, compared with the student, and known again.

Comes in: a run's config, its folder. Goes out: a model at rest, or a refusal that says what does
not fit. It does not know how the teacher was trained.

A run learns from one teacher from its first step to its last. What its weights were is written into
the run's folder (`teacher.json`), so that a resumed run is refused another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.data import assemble_tokenizer
from pellucid.errors import ConfigError, RunError
from pellucid.json_text import json_text
from pellucid.model import Transformer, adapters, assemble, merged
from pellucid.reader import read_json_table
from pellucid.saved_runs.folder import existing_folder, is_published
from pellucid.saved_runs.initial_weights import config_of
from pellucid.saved_runs.load import Run, fill, load
from pellucid.saved_runs.published import open_tokenizer
from pellucid.tasks.task import TaskInputs
from pellucid.tokenizers import Tokenizer
from pellucid.typed import to_numpy


@dataclass(frozen=True, slots=True)
class Teacher:
    """A model at rest, and the SHA-256 of its weights."""

    model: Transformer
    sha256: str


def check_teacher(run: config.Run) -> None:
    """Refuse a teacher that the student cannot learn from, as far as is known without the data.

    Nothing is asked of a run without a teacher.

    Raises:
        ConfigError: there is none, or it is another kind of model; reads less at once than the
            student; or cuts text into other tokens.
        RunError: the teacher is not there.
    """
    objective = run.objective
    if not isinstance(objective, config.Distillation):
        return
    if not objective.teacher:
        raise ConfigError(
            "objective.teacher names no run to learn from: pellucid distill TEACHER, or --set "
            "objective.teacher=TEACHER"
        )
    model = config_of(Path(objective.teacher)).model
    if not isinstance(model.head, config.LanguageHead) or model.encoder is not None:
        raise ConfigError(
            f"objective.teacher: {objective.teacher} is no decoder with a language head, and has "
            "no predictions of the next token to learn from"
        )
    if model.context_length < run.model.context_length:
        raise ConfigError(
            f"objective.teacher: the teacher reads {model.context_length:,} tokens at once and the "
            f"student {run.model.context_length:,}: shorten the student's text with --set "
            f"model.context_length={model.context_length}"
        )
    if isinstance(run.text.tokenizer, config.FromFile | config.Bytes):
        # the others are trained on the text, and compared when that is done
        student_tokenizer = assemble_tokenizer(run.text.tokenizer, ())
        rows = (
            student_tokenizer.vocab_size if run.model.vocab_size is None else run.model.vocab_size
        )
        _compare(
            objective.teacher,
            _words_of(Path(objective.teacher)),
            model.rows,
            student_tokenizer,
            rows,
        )


def teacher_of(given: TaskInputs) -> Teacher:
    """The model that is distilled from, frozen, its adapters merged.

    Raises:
        ConfigError: it cuts text into other tokens than the student, or knows another number of
            them: then their predictions cannot be compared.
        RunError: it is not there, or it is not the one that this run began to learn from.
    """
    objective, note = given.run.objective, given.folder.teacher
    assert isinstance(objective, config.Distillation)
    recorded = read_json_table(note, refusal=RunError) if note.exists() else None
    opened = _opened(objective.teacher, recorded, device=str(given.model.device))
    rows = opened.config.model.rows, given.run.model.rows
    _compare(objective.teacher, opened.tokenizer, rows[0], given.tokenizer, rows[1])
    model = _plain(opened)
    digest = sha256_of(model.state_dict())
    if recorded is None:
        write_text(note, json_text({"checkpoint": str(opened.checkpoint), "sha256": digest}))
    elif recorded["sha256"] != digest:
        raise RunError(
            f"objective.teacher: the weights at {opened.checkpoint} are not those that this run "
            f"began to learn from (SHA-256 {digest[:12]}, was {recorded['sha256'][:12]}): put the "
            "old ones back, or distil anew from these"
        )
    return Teacher(model, digest)


def sha256_of(tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of weights: of their names, kinds, shapes and bytes, in the names' order."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(to_numpy(tensor.detach().cpu().flatten().view(torch.uint8)).tobytes())
    return digest.hexdigest()


def _opened(named: str, recorded: dict[str, str] | None, *, device: str) -> Run:
    """The teacher; where it is known which of its checkpoints was learnt from, at that one."""
    teacher_path = Path(named)
    if recorded is not None and Path(recorded["checkpoint"]).exists():
        teacher_path = Path(recorded["checkpoint"])
    if not teacher_path.exists():
        raise RunError(
            f"objective.teacher: {teacher_path}, which this run learns from, is not there (looked "
            f"for from {Path.cwd()}): put it back to go on; what was learnt so far can be used "
            "without it"
        )
    return load(teacher_path, device=device)


def _plain(teacher: Run) -> Transformer:
    """The same model without adapters: what they learnt is part of the weights."""
    model = teacher.model
    if adapters(model):
        with torch.device("meta"):
            plain = assemble(teacher.config.model, seed=0)
        fill(plain, merged(model), model.device)
        model = plain.eval()
    return model.requires_grad_(False)


def _words_of(teacher: Path) -> Tokenizer:
    if is_published(teacher):
        return open_tokenizer(teacher)
    return Tokenizer.load(existing_folder(teacher)[0].tokenizer)


def _compare(
    named: str, teacher: Tokenizer, teacher_rows: int, student: Tokenizer, student_rows: int
) -> None:
    same = teacher.to_json() == student.to_json()
    if same and teacher_rows == student_rows:
        return
    reason = (
        f"the two tokenizers cut text into other tokens ({teacher.vocab_size:,} in the teacher's, "
        f"{student.vocab_size:,} in the student's)"
        if not same
        else f"the teacher has {teacher_rows:,} tokens and the student {student_rows:,}"
    )
    raise ConfigError(
        f"objective.teacher: {reason}, so that no prediction of one is a prediction of the other: "
        f"give the student the teacher's tokenizer (pellucid distill does), with --set "
        f"text.tokenizer.kind=FromFile --set text.tokenizer.path={named} --set "
        f"model.vocab_size={teacher_rows}"
    )
