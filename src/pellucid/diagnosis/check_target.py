"""Check a model by its name: a run, a published model, a preset or a config file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, TokenBatch
from pellucid.counting import parameter_count
from pellucid.diagnosis.batches import targets_for
from pellucid.diagnosis.check import check, check_examples
from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.history.history import History
from pellucid.diagnosis.history.run import facts_of
from pellucid.diagnosis.reduced_model import reduce_model
from pellucid.diagnosis.training_batch import build_training_batch
from pellucid.errors import PellucidError, TextError
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken
from pellucid.old_names import old_attributes
from pellucid.presets import PRESETS
from pellucid.reader import LARGE, read_text
from pellucid.runs import Run, learns_from_rows, load
from pellucid.runs.build import with_vocabulary
from pellucid.runs.prepare_text import ready_text
from pellucid.runs.resolve_config import resolve_config
from pellucid.saved_runs.folder import is_published
from pellucid.saved_runs.progress import silent
from pellucid.tokenizers import Tokenizer

#: A preset or a config with more weights than this is checked as its small twin.
_LARGEST = 5_000_000
_VOCABULARY = 512
_ROWS, _BATCHES, _LONGEST = 4, 4, 128
#: After so many updates a model should beat guessing by far.
_TRAINED_AFTER = 200


@dataclass(frozen=True, slots=True)
class Checked:
    """A description of the checked model and data, and the findings."""

    target: str
    findings: tuple[Finding, ...]

    if not TYPE_CHECKING:
        __getattr__ = old_attributes(what="target")


def check_named(
    name: str, text: str | Path | None = None, *, declared: Expectations, ignore: Sequence[str] = ()
) -> Checked:
    """Check a run, a published model, a preset or a config file.

    Args:
        name: the folder, the name of the preset, or the path of the config file.
        text: a text whose tokens the model reads; without it, random ids.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: there is nothing of that name, or the text does not fit it.
    """
    path = Path(name)
    if path.is_dir():
        # weights that are not finite are one of the faults to report
        return _check_run(load(path, allow_non_finite=True), text, declared, ignore)
    if name not in PRESETS and not path.is_file():
        raise PellucidError(
            f"{name!r} is not a folder (a run or a published model), a config file or a preset. "
            f"Presets are {', '.join(PRESETS)}"
        )
    paths = [] if text is None else [text]
    run = (
        resolve_config(paths, config_file=path)
        if path.is_file()
        else resolve_config(paths, preset=name)
    )
    if text is None:
        return _check_config(name, run, declared, ignore)
    return _check_config_with(name, run, Path(text), declared, ignore)


def _check_config(
    name: str, run: config.Run, declared: Expectations, ignore: Iterable[str]
) -> Checked:
    model = replace(run.model, vocab_size=run.model.vocab_size or _VOCABULARY)
    n_weights, description = parameter_count(model), f"{name}, untrained"
    if n_weights > _LARGEST:
        model = reduce_model(model)
        description += f": a small twin with the same parts, instead of {n_weights:,} weights"
    assumed = _assume_pretrained(declared, False)
    findings = check(assemble(model, seed=0), declared=assumed, ignore=ignore)
    return Checked(description, tuple(_with_config_warnings(findings, name, run, assumed, ignore)))


def _assume_pretrained(declared: Expectations, pretrained: bool | None) -> Expectations:
    """The expectations, with a value for `pretrained` if you gave none."""
    return declared if declared.pretrained is not None else replace(declared, pretrained=pretrained)


def _check_config_with(
    name: str, run: config.Run, text: Path, declared: Expectations, ignore: Iterable[str]
) -> Checked:
    """An untrained model with a tokenizer that is trained on the text, as `train` would."""
    if isinstance(run.text.corpus, config.Rows):
        raise PellucidError(
            f"{name} learns from rows of columns: leave DATA out, or train for one step and check "
            "the run with your rows"
        )
    tokenizer, _ = ready_text(run.text, silent)
    model = with_vocabulary(run, tokenizer).model
    description = f"{name}, untrained"
    if parameter_count(model) > _LARGEST:
        model = replace(reduce_model(model), vocab_size=model.vocab_size)
        description += ", as a small twin with the same parts"
    assumed = _assume_pretrained(declared, False)
    findings, n = _check_on_text(assemble(model, seed=0), tokenizer, text, assumed, ignore)
    findings = _with_config_warnings(findings, name, run, assumed, ignore)
    return Checked(f"{description}, with {n:,} tokens of {text}", tuple(findings))


def _with_config_warnings(
    findings: Sequence[Finding],
    name: str,
    run: config.Run,
    declared: Expectations,
    ignore: Iterable[str],
) -> list[Finding]:
    """The findings of probes, and the warnings that the config alone gives."""
    budget = run.training.budget
    total = budget.count if isinstance(budget, config.Steps) else None
    history = History(name=name, facts=facts_of(run, total), findings=tuple(findings), config=run)
    return diagnose(history, declared=declared, ignore=ignore)


def _check_run(
    run: Run, text: str | Path | None, declared: Expectations, ignore: Iterable[str]
) -> Checked:
    assumed = _assume_pretrained(declared, _is_trained(run))
    model, tokenizer = run.model, run.tokenizer
    if text is None:
        findings = check(model, tokenizer=tokenizer, declared=assumed, ignore=ignore)
        return Checked(str(run.folder), tuple(findings))
    if learns_from_rows(run):
        batch = build_training_batch(run, [str(text)])
        if isinstance(run.config.objective, config.SFT):
            ignore = (*ignore, "LOS004")  # prompts have no labels on purpose
        findings = check_examples(
            model,
            batch.examples,
            tokenizer=tokenizer,
            loss=batch.loss,
            declared=assumed,
            ignore=tuple(ignore),
        )
        n = batch.examples.ids.numel()
    else:
        findings, n = _check_on_text(model, tokenizer, Path(text), assumed, ignore)
    return Checked(f"{run.folder}, with {n:,} tokens of {text}", tuple(findings))


def _is_trained(run: Run) -> bool | None:
    """Whether a run should know a text: not at its first update, and unknown soon after."""
    if is_published(run.folder):
        return True
    _, _, step = run.checkpoint.name.rpartition("-")
    updates = int(step) if step.isdecimal() else _TRAINED_AFTER
    if updates == 0 and run.config.start is None:
        return False
    return True if updates >= _TRAINED_AFTER else None


def _check_on_text(
    model: Transformer,
    tokenizer: Tokenizer,
    text: Path,
    declared: Expectations,
    ignore: Iterable[str],
) -> tuple[list[Finding], int]:
    """The findings with the beginning of a text, and how many tokens they are based on."""
    batches = _batches(text, tokenizer, model.context_length)
    decoder_alone = model.encoder is None and model.output_head.no_token_logits is None
    findings = check(
        model,
        batches,
        targets_for(batches[0], 1) if decoder_alone else None,
        tokenizer=tokenizer,
        loss=_own_loss if decoder_alone else None,
        declared=declared,
        ignore=ignore,
    )
    return findings, sum(batch.numel() for batch in batches)


def _batches(path: Path, tokenizer: Tokenizer, context: int) -> list[Tensor]:
    """The beginning of a text, cut into rows."""
    width = min(context, _LONGEST)
    ids = tokenizer.encode_document(read_text(path, limit=LARGE, refusal=TextError))
    if len(ids) < width:
        raise TextError(f"{path} has {len(ids)} tokens: a check needs at least {width}")
    rows = torch.tensor(ids[: len(ids) // width * width]).view(-1, width)
    return [rows[i : i + _ROWS] for i in range(0, min(len(rows), _ROWS * _BATCHES), _ROWS)]


def _own_loss(model: Transformer, ids: Tensor, labels: Tensor) -> Tensor:
    count = int((labels != IGNORED).sum())
    return NextToken()(model, TokenBatch(ids=ids, targets=labels, n_supervised=count)).total
