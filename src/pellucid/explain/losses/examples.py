"""One row as it is trained on, as texts with the loss of the run's objective.

The code that trains encodes the row and puts it into a batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never, cast

import numpy as np

from pellucid import config
from pellucid.batches import (
    LabelBatch,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)
from pellucid.data import masked_windows, masking_for, span_windows, spans_for
from pellucid.errors import ConfigError
from pellucid.explain.losses.batches import (
    label_sentence,
    pair_sentence,
    preference_sentence,
    rollout_sentence,
    token_sentence,
)
from pellucid.explain.losses.masked import masked_sentence
from pellucid.explain.sentence import Sentence, encode_sentence
from pellucid.json_text import json_text
from pellucid.reader import parse_json, read_text
from pellucid.runs import Run
from pellucid.runs.evaluate_examples import task_on
from pellucid.tasks.mlm import HELD_OUT_SEED
from pellucid.tasks.rewards import find_reward

Row = Mapping[str, Any]


def read_example(file: str | Path) -> Row:
    """The one row of a file of JSON.

    Raises:
        ConfigError: it is no JSON, holds no row, or holds several.
    """
    lines = [line for line in read_text(file, refusal=ConfigError).splitlines() if line.strip()]
    hint = 'an example is one row as it is trained on, an object such as {"text": "..."}'
    if len(lines) > 1 and all(line.lstrip()[:1] == "{" for line in lines):
        raise ConfigError(f"{file} has {len(lines)} rows: {hint}; keep one of them")
    value = parse_json("\n".join(lines), str(file), refusal=ConfigError, lenient=True)
    rows = cast("list[Any]", value) if isinstance(value, list) else [value]
    if len(rows) != 1 or not isinstance(rows[0], dict):
        raise ConfigError(f"{file} is not one row: {hint}")
    return cast("Row", rows[0])


def encode_example(run: Run, row: Row, *, reward: str | None = None) -> Sentence:
    """The texts of one row as the run's objective reads them, with their loss.

    Args:
        run: the run; its objective and its columns are meant.
        row: a row of the kind that the run learnt from; {"text": ...} if it learnt from text.
        reward: what judges answers, if the run learnt from a reward.

    Raises:
        PellucidError: the row does not fit the objective; names the missing part.
    """
    match run.config.objective:
        case config.NextToken() | config.Distillation():
            return _text_example(run, row)
        case config.MLM() as objective:
            return _masked_example(run, row, objective)
        case config.SpanCorruption() as objective:
            return _span_example(run, row, objective)
        case (
            config.Seq2Seq()
            | config.Classification()
            | config.SFT()
            | config.DPO()
            | config.PolicyGradient()
        ):
            return row_example(run, row, reward=reward)
        case _:
            assert_never(run.config.objective)


def _text_of(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise ConfigError(
            f"the example has no text in {name!r}: it has {', '.join(map(repr, row)) or 'nothing'}"
        )
    return value


def _text_example(run: Run, row: Row) -> Sentence:
    return encode_sentence(run, _text_of(row, "text"))


def _masked_example(run: Run, row: Row, objective: config.MLM) -> Sentence:
    """A text and its masked form; without that, tokens are masked as in training."""
    tokenizer, full = run.require_tokenizer(), _text_of(row, "text")
    if "masked" in row:
        return masked_sentence(run, _text_of(row, "masked"), full)
    masking = masking_for(
        tokenizer,
        chosen=objective.chosen,
        masked=objective.masked,
        replaced=objective.replaced,
        whole_words=objective.whole_words,
    )
    windows = masked_windows(
        np.array(tokenizer.encode(full)),
        masking,
        context_length=run.model.context_length,
        batch_size=1,
        seed=HELD_OUT_SEED,
    )
    return token_sentence(run, next(windows), full)


def _span_example(run: Run, row: Row, objective: config.SpanCorruption) -> Sentence:
    tokenizer, text = run.require_tokenizer(), _text_of(row, "text")
    spans = spans_for(
        tokenizer,
        corrupted=objective.corrupted,
        mean_span=objective.mean_span,
        start_id=tokenizer.begin_id,
    )
    tokens = np.array(tokenizer.encode(text))
    length = run.model.context_length
    windows = span_windows(tokens, spans, context_length=length, batch_size=1, seed=HELD_OUT_SEED)
    return pair_sentence(run, next(windows), text)


def row_example(
    run: Run,
    row: Row,
    columns: tuple[str, ...] = (),
    *,
    reward: str | None = None,
    answer: str | None = None,
) -> Sentence:
    """A row of a run that learnt from rows.

    Args:
        run: the run.
        row: the row.
        columns: which column of it holds what; by default as in the run.
        reward: what judges answers, if the run learnt from a reward.
        answer: the answer that is judged, in place of the first that such a run samples.

    Raises:
        PellucidError: the row does not fit.
    """
    objective = run.config.objective
    rewards = find_reward(objective, reward)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "example.json"
        file.write_text(json_text([dict(row)]), encoding="utf-8")
        with task_on(
            _unpacked(run), [str(file)], columns=columns, reward=rewards, answer=answer
        ) as task:
            n_rows = objective.n_samples if isinstance(objective, config.PolicyGradient) else 1
            batch = task.batch(0, n_rows)
    text = " ".join(value for value in row.values() if isinstance(value, str))
    match batch:
        case TokenBatch():
            return token_sentence(run, batch, text)
        case PairBatch():
            return pair_sentence(run, batch, text)
        case LabelBatch():
            return label_sentence(run, batch, text)
        case PreferenceBatch():
            return preference_sentence(run, batch, text, task)
        case RolloutBatch():
            return rollout_sentence(run, batch, text)
        case _:
            raise AssertionError(type(batch))  # no other batch is made of rows


def _unpacked(run: Run) -> Run:
    """The run with one conversation in a row."""
    objective = run.config.objective
    if not isinstance(objective, config.SFT):
        return run
    return replace(run, config=replace(run.config, objective=replace(objective, packed=False)))
