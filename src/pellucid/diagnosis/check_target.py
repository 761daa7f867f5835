"""Check a model by its name: a run, a published model, a preset or a config file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from pellucid.presets import PRESETS
from pellucid.reader import LARGE, read_text, read_toml
from pellucid.runs import Run, learns_from_rows, load
from pellucid.runs.build import with_vocabulary
from pellucid.runs.prepare_text import ready_text
from pellucid.runs.resolve_config import resolve_config
from pellucid.saved_runs.folder import is_published
from pellucid.saved_runs.progress import silent
from pellucid.saved_runs.token_ids import TokenIds, read_texts_of_ids
from pellucid.tokenizers import Tokenizer

#: A preset or a config with more weights than this is checked as its small twin.
_LARGEST = 5_000_000
_VOCABULARY = 512
_ROWS, _BATCHES, _LONGEST = 4, 4, 128
#: After so many updates a model should beat guessing by far.
_TRAINED_AFTER = 200


@dataclass(frozen=True, slots=True)
class Checked:
    """A description of the checked model and data, and the findings.

    Attributes:
        target: what was checked, in words.
        findings: the gravest first.
    """

    target: str
    findings: tuple[Finding, ...]


def check_named(
    name: str,
    text: str | Path | None = None,
    *,
    ids: TokenIds | None = None,
    declared: Expectations,
    ignore: Sequence[str] = (),
) -> Checked:
    """Check a run, a published model, a preset or a config file.

    Args:
        name: the folder, the name of the preset, or the path of the config file.
        text: a text whose tokens the model reads; without it, random ids.
        ids: the token ids of texts, for a run or a published model; `text` then only names them.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: there is nothing of that name, or the text does not fit it.
    """
    path = Path(name)
    if path.is_dir():
        # weights that are not finite are one of the faults to report
        run = load(path, allow_non_finite=True)
        if ids is not None:
            return _check_on_ids(run, ids, "ids" if text is None else str(text), declared, ignore)
        return _check_run(run, text, declared, ignore)
    if name not in PRESETS and not path.is_file():
        raise PellucidError(
            f"{name!r} is not a folder (a run or a published model), a config file or a preset. "
            f"Presets are {', '.join(PRESETS)}"
        )
    if ids is not None:
        raise PellucidError(
            f"token ids are for the model of a run or of a Hugging Face directory, and {name} has "
            "no weights yet: leave --ids out, or name a folder"
        )
    if path.is_file() and path.suffix != ".toml":
        _refuse_data(path)
    paths = [] if text is None else [text]
    source: dict[str, Any] = {"config_file": path} if path.is_file() else {"preset": name}
    run = resolve_config(paths, **source)
    return _check_config(name, run, None if text is None else Path(text), declared, ignore)


def _refuse_data(path: Path) -> None:
    """Say that a file which is no TOML is not the model, but may be its data."""
    try:
        read_toml(path)
    except PellucidError:
        raise PellucidError(
            f"{path} is no config file (TOML): name a run, a Hugging Face directory, a preset or a "
            f"config file first, and data second, such as pellucid check nano {path}"
        ) from None


def _check_config(
    name: str, run: config.Run, text: Path | None, declared: Expectations, ignore: Iterable[str]
) -> Checked:
    """Check an untrained model, on a text with a tokenizer that is trained on it as by `train`."""
    tokenizer = None if text is None else _train_tokenizer(name, run)
    model = replace(run.model, vocab_size=run.model.vocab_size or _VOCABULARY)
    if tokenizer is not None:
        model = with_vocabulary(run, tokenizer).model
    n_weights, description = parameter_count(model), f"{name}, untrained"
    if n_weights > _LARGEST:
        small = reduce_model(model)
        model = small if tokenizer is None else replace(small, vocab_size=model.vocab_size)
        description += f", as a small twin with the same parts instead of {n_weights:,} weights"
    declared = _assume_pretrained(declared, False)
    untrained = assemble(model, seed=0)
    if text is None or tokenizer is None:
        findings = check(untrained, declared=declared, ignore=ignore)
    else:
        findings, n = _check_on_text(untrained, tokenizer, text, declared, ignore)
        description += f", with {n:,} tokens of {text}"
    budget = run.training.budget
    facts = facts_of(run, budget.count if isinstance(budget, config.Steps) else None)
    # the config alone gives warnings too
    history = History(name=name, facts=facts, findings=tuple(findings), config=run)
    return Checked(description, tuple(diagnose(history, declared=declared, ignore=ignore)))


def _train_tokenizer(name: str, run: config.Run) -> Tokenizer:
    if isinstance(run.text.corpus, config.Rows):
        raise PellucidError(
            f"{name} learns from rows of columns: leave DATA out, or train for one step and check "
            "the run with your rows"
        )
    return ready_text(run.text, silent)[0]


def _assume_pretrained(declared: Expectations, pretrained: bool | None) -> Expectations:
    """The expectations, with a value for `pretrained` if you gave none."""
    return declared if declared.pretrained is not None else replace(declared, pretrained=pretrained)


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
        tokenizer = run.require_tokenizer()
        findings, n = _check_on_text(model, tokenizer, Path(text), assumed, ignore)
    return Checked(f"{run.folder}, with {n:,} tokens of {text}", tuple(findings))


def _check_on_ids(
    run: Run, ids: TokenIds, name: str, declared: Expectations, ignore: Iterable[str]
) -> Checked:
    """The findings with the beginning of texts of ids."""
    model = run.model
    stream = [i for text in read_texts_of_ids(ids, model) for i in text.tolist()]
    batches = _cut(stream, name, model.context_length)
    assumed = _assume_pretrained(declared, _is_trained(run))
    findings, n = _check_batches(model, batches, run.tokenizer, assumed, ignore)
    return Checked(f"{run.folder}, with {n:,} tokens of {name}", tuple(findings))


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
    ids = tokenizer.encode_document(read_text(text, limit=LARGE, refusal=TextError))
    batches = _cut(ids, str(text), model.context_length)
    return _check_batches(model, batches, tokenizer, declared, ignore)


def _check_batches(
    model: Transformer,
    batches: list[Tensor],
    tokenizer: Tokenizer | None,
    declared: Expectations,
    ignore: Iterable[str],
) -> tuple[list[Finding], int]:
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


def _cut(ids: Sequence[int], name: str, context: int) -> list[Tensor]:
    """The beginning of a text, cut into rows."""
    width = min(context, _LONGEST)
    if len(ids) < width:
        raise TextError(f"{name} has {len(ids)} tokens: a check needs at least {width}")
    rows = torch.tensor(ids[: len(ids) // width * width]).view(-1, width)
    return [rows[i : i + _ROWS] for i in range(0, min(len(rows), _ROWS * _BATCHES), _ROWS)]


def _own_loss(model: Transformer, ids: Tensor, labels: Tensor) -> Tensor:
    count = int((labels != IGNORED).sum())
    return NextToken()(model, TokenBatch(ids=ids, targets=labels, n_supervised=count)).total
