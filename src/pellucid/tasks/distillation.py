"""Predicting what a teacher predicts; the teacher is compared with the student first.

A run learns from one teacher from its first step to its last. The SHA-256 of its weights is in the
run's folder (`teacher.json`), so that a resumed run cannot continue with another teacher.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.counting import parameter_count
from pellucid.data import assemble_tokenizer
from pellucid.display.numbers import short
from pellucid.errors import ConfigError, RunError
from pellucid.hub import local_model
from pellucid.json_text import json_text
from pellucid.model import Transformer, adapters, assemble, merged
from pellucid.objectives import assemble as assemble_objective
from pellucid.reader import read_json_table
from pellucid.saved_runs.folder import RunFolder, existing_folder, is_published
from pellucid.saved_runs.initial_weights import config_of
from pellucid.saved_runs.load import Run, fill, load
from pellucid.saved_runs.published import open_tokenizer
from pellucid.tasks.next_token import next_token_task
from pellucid.tasks.task import Task, TaskInputs
from pellucid.tokenizers import Tokenizer
from pellucid.typed import to_numpy


@dataclass(frozen=True, slots=True)
class Teacher:
    """A model at rest, and the SHA-256 of its weights."""

    model: Transformer
    sha256: str


def distillation_task(inputs: TaskInputs) -> Task:
    """Windows of a text; evaluated on the text alone, as any language model."""
    teacher = open_teacher(inputs)
    objective = assemble_objective(inputs.run.objective, teacher=teacher.model)
    task = next_token_task(inputs, objective)
    count = sum(parameter.numel() for parameter in teacher.model.parameters())
    ratio = count / parameter_count(inputs.run.model)
    description = (
        f"{short(count)} parameters, {ratio:.1f} times the student's, SHA-256 {teacher.sha256[:12]}"
    )
    return replace(task, facts=(*task.facts, ("teacher", description)))


def check_teacher(run: config.Run) -> None:
    """Refuse a teacher that the student cannot learn from, before the data are read.

    A run with another objective passes.

    Raises:
        ConfigError: the config names no teacher; or the teacher is another kind of model, has a
            shorter context than the student, or another tokenizer.
        RunError: the teacher does not exist.
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
        # the other tokenizers are trained first, and compared after that
        student_tokenizer = assemble_tokenizer(run.text.tokenizer, ())
        rows = (
            student_tokenizer.vocab_size if run.model.vocab_size is None else run.model.vocab_size
        )
        _compare(
            objective.teacher,
            _open_tokenizer(local_model(objective.teacher)),
            model.rows,
            student_tokenizer,
            rows,
        )


def teacher_of(run: Run) -> Transformer:
    """The teacher of a trained run, frozen, with its adapters merged; no file is written.

    Raises:
        ConfigError: its tokenizer is not the student's.
        RunError: the teacher does not exist, or is not the one that this run learnt from.
    """
    teacher, _ = _open(
        run.config, RunFolder(run.folder), run.require_tokenizer(), str(run.model.device)
    )
    return teacher.model


def open_teacher(inputs: TaskInputs) -> Teacher:
    """The teacher, frozen, with its adapters merged; its digest goes into the run's folder.

    Raises:
        ConfigError: its tokenizer is not the student's, or the number of its tokens differs: their
            predictions cannot be compared.
        RunError: the teacher does not exist, or is not the one that this run started with.
    """
    teacher, opened = _open(inputs.run, inputs.folder, inputs.tokenizer, str(inputs.model.device))
    note = inputs.folder.teacher
    if not note.exists():
        content = {"checkpoint": str(opened.checkpoint), "sha256": teacher.sha256}
        write_text(note, json_text(content))
    return teacher


def _open(
    run: config.Run, folder: RunFolder, tokenizer: Tokenizer, device: str
) -> tuple[Teacher, Run]:
    """The teacher, and its run."""
    objective, note = run.objective, folder.teacher
    assert isinstance(objective, config.Distillation)
    recorded = read_json_table(note, refusal=RunError) if note.exists() else None
    opened = _load_teacher(objective.teacher, recorded, device=device)
    rows = opened.config.model.rows, run.model.rows
    _compare(objective.teacher, opened.require_tokenizer(), rows[0], tokenizer, rows[1])
    model = _merge_adapters(opened)
    digest = sha256_of(model.state_dict())
    if recorded is not None and recorded["sha256"] != digest:
        raise RunError(
            f"objective.teacher: the weights at {opened.checkpoint} are not those that this run "
            f"began to learn from (SHA-256 {digest[:12]}, was {recorded['sha256'][:12]}): put the "
            "old ones back, or distil anew from these"
        )
    return Teacher(model, digest), opened


def sha256_of(tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of weights, sorted by name: of their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(to_numpy(tensor.detach().cpu().flatten().view(torch.uint8)).tobytes())
    return digest.hexdigest()


def _load_teacher(name: str, recorded: dict[str, str] | None, *, device: str) -> Run:
    """The teacher, at the recorded checkpoint if that still exists."""
    teacher_path = Path(name)
    if recorded is not None and Path(recorded["checkpoint"]).exists():
        teacher_path = Path(recorded["checkpoint"])
    if not teacher_path.exists():
        raise RunError(
            f"objective.teacher: {teacher_path}, which this run learns from, does not exist (from "
            f"{Path.cwd()}): put it back to resume the run; you can use the checkpoints "
            "without it"
        )
    return load(teacher_path, device=device)


def _merge_adapters(teacher: Run) -> Transformer:
    """The model, with its adapters merged into the weights, and frozen."""
    model = teacher.model
    if adapters(model):
        with torch.device("meta"):
            plain = assemble(teacher.config.model, seed=0)
        fill(plain, merged(model), model.device)
        model = plain.eval()
    return model.requires_grad_(False)


def _open_tokenizer(teacher: Path) -> Tokenizer:
    if is_published(teacher):
        return open_tokenizer(teacher)
    return Tokenizer.load(existing_folder(teacher)[0].tokenizer)


def _compare(
    name: str, teacher: Tokenizer, teacher_rows: int, student: Tokenizer, student_rows: int
) -> None:
    same_tokenizer = teacher.to_json() == student.to_json()
    if same_tokenizer and teacher_rows == student_rows:
        return
    reason = (
        f"the two tokenizers cut text into other tokens ({teacher.vocab_size:,} in the teacher's, "
        f"{student.vocab_size:,} in the student's)"
        if not same_tokenizer
        else f"the teacher has {teacher_rows:,} tokens and the student {student_rows:,}"
    )
    raise ConfigError(
        f"objective.teacher: {reason}, so that no prediction of one is a prediction of the other: "
        f"give the student the teacher's tokenizer (pellucid distill does), with --set "
        f"text.tokenizer.kind=FromFile --set text.tokenizer.path={name} --set "
        f"model.vocab_size={teacher_rows}"
    )
