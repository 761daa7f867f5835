"""What a name stands for, checked: a run, a published model, a preset, a config file.

Comes in: a name, and perhaps a file of text. Goes out: what was checked, and findings. It does not
know how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, TokenBatch
from pellucid.counting import parameter_count
from pellucid.diagnosis.check import check
from pellucid.diagnosis.data import targets_for
from pellucid.diagnosis.declared import Declared
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.twin import small_twin
from pellucid.errors import PellucidError, TextError
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken
from pellucid.presets import PRESETS
from pellucid.runs import Run, load
from pellucid.runs.choose import choose
from pellucid.text import Tokenizer

#: A preset or a config of more weights is asked as its small twin.
_LARGEST = 5_000_000
_ROWS_OF_A_VOCABULARY = 512
_ROWS, _BATCHES, _LONGEST = 4, 4, 128


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, in words, and what was found."""

    what: str
    findings: tuple[Finding, ...]


def check_named(
    name: str, text: str | Path | None = None, *, declared: Declared, ignore: Iterable[str] = ()
) -> Checked:
    """Check what `name` stands for, with the tokens of `text` where one is given.

    Raises:
        PellucidError: there is nothing of that name, or the text cannot be used with it.
    """
    path = Path(name)
    if path.is_dir():
        return _check_run(load(path), text, declared, ignore)
    if name not in PRESETS and not path.is_file():
        raise PellucidError(
            f"{name!r} is neither a folder (a run, or a published model), nor a config file, nor "
            f"a preset: presets are {', '.join(PRESETS)}"
        )
    if text is not None:
        raise PellucidError(
            f"{name} has no tokenizer yet, so the text cannot be read as it would: leave the text "
            "out, or train for a step and check the run"
        )
    run = choose(config_file=path) if path.is_file() else choose(preset=name)
    return _check_config(name, run.model, declared, ignore)


def _check_config(
    name: str, model: config.Transformer, declared: Declared, ignore: Iterable[str]
) -> Checked:
    model = replace(model, vocab_size=model.vocab_size or _ROWS_OF_A_VOCABULARY)
    whole, what = parameter_count(model), f"{name}, untrained"
    if whole > _LARGEST:
        model = small_twin(model)
        what += f": a small twin with the same parts, instead of {whole:,} weights"
    said = declared if declared.pretrained is not None else replace(declared, pretrained=False)
    return Checked(what, tuple(check(assemble(model, seed=0), declared=said, ignore=ignore)))


def _check_run(
    run: Run, text: str | Path | None, declared: Declared, ignore: Iterable[str]
) -> Checked:
    trained = run.checkpoint.name != "step-0"
    said = declared if declared.pretrained is not None else replace(declared, pretrained=trained)
    model, tokenizer = run.model, run.tokenizer
    if text is None:
        findings = check(model, tokenizer=tokenizer, declared=said, ignore=ignore)
        return Checked(str(run.folder), tuple(findings))
    batches = _batches(Path(text), tokenizer, model.context_length)
    decoder_alone = model.encoder is None and model.has_head
    findings = check(
        model,
        batches,
        targets_for(batches[0], 1) if decoder_alone else None,
        tokenizer=tokenizer,
        loss=_own_loss if decoder_alone else None,
        declared=said,
        ignore=ignore,
    )
    n = sum(each.numel() for each in batches)
    return Checked(f"{run.folder}, with {n:,} tokens of {text}", tuple(findings))


def _batches(path: Path, tokenizer: Tokenizer, context: int) -> list[Tensor]:
    """The beginning of a text as it stands, cut into rows."""
    try:
        read = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TextError(f"{path} cannot be read as UTF-8 text: {error}") from None
    width = min(context, _LONGEST)
    ids = tokenizer.encode_document(read)
    if len(ids) < width:
        raise TextError(f"{path} has {len(ids)} tokens: a check needs {width} at least")
    rows = torch.tensor(ids[: len(ids) // width * width]).view(-1, width)
    return [rows[i : i + _ROWS] for i in range(0, min(len(rows), _ROWS * _BATCHES), _ROWS)]


def _own_loss(model: Transformer, ids: Tensor, labels: Tensor) -> Tensor:
    count = int((labels != IGNORED).sum())
    return NextToken()(model, TokenBatch(ids=ids, targets=labels, n_supervised=count)).total
