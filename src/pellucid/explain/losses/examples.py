"""One example as it is trained on: its texts, and the loss of the run's objective.

The rows are encoded and put into a batch by the code that trains. What is read here is the batch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never, cast

import numpy as np
import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import (
    IGNORED,
    LabelBatch,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)
from pellucid.data import masked_windows, masking_for, span_windows, spans_for
from pellucid.errors import ConfigError, PellucidError
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.sentence import Sentence, Spelling, encode_sentence, refuse_long
from pellucid.inference.classification import class_names, has_several_labels
from pellucid.model import Transformer
from pellucid.objectives import DPO, open_reference, row_log_p
from pellucid.reader import parse_json, read_text
from pellucid.runs import Run
from pellucid.runs.evaluate_examples import task_on
from pellucid.saved_runs.requirements import kind_of
from pellucid.tasks import Task
from pellucid.tasks.distillation import teacher_of
from pellucid.tasks.mlm import HELD_OUT_SEED
from pellucid.tasks.rewards import find_reward
from pellucid.typed import to_list

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


def example_in_words(run: Run, text: str, target: str, rejected: str | None = None) -> Sentence:
    """An example from its texts.

    Args:
        run: the run; its objective is meant.
        text: a text with masks, a text to classify, a source, a prompt or a question.
        target: the whole text, the class, or the text to write.
        rejected: the answer that is not preferred, for a run that learnt from preferences.

    Raises:
        PellucidError: the texts do not fit the objective; says what is missing.
    """
    kind, objective = kind_of(run.model), run.config.objective
    if rejected is not None and not isinstance(objective, config.DPO):
        raise ConfigError(
            f"a rejected answer was given, but this run was trained by {type(objective).__name__}: "
            "only preferences (DPO) have one; leave it out"
        )
    if run.model.classifier is not None:
        return _classified(run, text, target)
    if kind == "encoder-decoder":
        sentence = encode_sentence(run, text, target)
        ids = torch.tensor(sentence.ids, device=run.model.device)
        loss = default_loss(run, run.model, ids)
        return replace(sentence, loss=loss, is_example=loss is not None)
    if kind == "encoder":
        return masked_sentence(run, text, target)
    match objective:
        case config.SFT():
            return _row_example(run, *_conversation(run, text, target))
        case config.DPO():
            if rejected is None:
                raise ConfigError(
                    "this run learnt from pairs of answers: give the rejected one too (--rejected)"
                )
            row = {"prompt": text, "chosen": target, "rejected": rejected}
            return _row_example(run, row, tuple(f"{name}={name}" for name in row))
        case config.PolicyGradient():
            raise ConfigError(
                "this run learnt from answers that it sampled itself, so none can be given: pass a "
                "row with its prompt (--example FILE) and what judges answers (--reward NAME)"
            )
        case (
            config.NextToken()
            | config.Distillation()
            | config.MLM()
            | config.SpanCorruption()
            | config.Seq2Seq()
            | config.Classification()
        ):
            return _continued(run, text, target)
        case _:
            assert_never(objective)


def _conversation(run: Run, text: str, target: str) -> tuple[Row, tuple[str, ...]]:
    """A row with a prompt and an answer in the form of the run's rows, and its columns."""
    corpus = run.config.text.corpus
    if isinstance(corpus, config.Conversations) and corpus.messages is not None:
        turns = [("user", text), ("assistant", target)]
        return {corpus.messages: [{"role": r, "content": words} for r, words in turns]}, ()
    return {"prompt": text, "answer": target}, ("prompt=prompt", "answer=answer")


def _continued(run: Run, text: str, target: str) -> Sentence:
    """A text and what follows it: the loss is that of what follows."""
    tokenizer = run.require_tokenizer()
    prompt, answer = tokenizer.encode_prompt(text, name="sentence"), tokenizer.encode(target)
    if not answer:
        raise PellucidError("the target is empty: write some of it, or leave it out")
    ids = torch.tensor([*prompt, *answer], device=run.model.device)
    refuse_long(tuple(to_list(ids)), run.model, "sentence and its target")
    loss = default_loss(run, run.model, ids)
    assert isinstance(loss, TokenLoss | DistillationLoss)
    first = len(prompt) - 1
    changes: dict[str, Any] = {"places": loss.places[first:], "targets": loss.targets[first:]}
    if isinstance(loss, DistillationLoss):
        changes["teacher_logits"] = loss.teacher_logits[first:]
    return _sentence(run, ids, text + target, replace(loss, **changes))


def _classified(run: Run, text: str, target: str) -> Sentence:
    """A text and its class, or its classes with commas between them."""
    names, sentence = class_names(run), encode_sentence(run, text)
    several = has_several_labels(run)
    given = [part.strip() for part in target.split(",")] if several else [target.strip()]
    given = [name for name in given if name]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None or not (several or given):
        raise ConfigError(
            f"the target {target!r} is no class of this run: it has {', '.join(names)}"
        )
    numbers = [names.index(name) for name in given]
    labels = torch.tensor(numbers[0] if not several else [n in numbers for n in range(len(names))])
    objective = run.config.objective
    smoothing = objective.label_smoothing if isinstance(objective, config.Classification) else 0.0
    loss = ClassLoss(
        classes=tuple(names),
        labels=(labels.float() if several else labels).to(run.model.device),
        label_smoothing=smoothing,
    )
    return replace(sentence, loss=loss, is_example=True)


def encode_example(run: Run, row: Row, *, reward: str | None = None) -> Sentence:
    """The texts of one row as the run's objective reads them, with their loss.

    Args:
        run: the run; its objective and its columns are meant.
        row: a row of the kind that the run learnt from; {"text": ...} if it learnt from text.
        reward: what judges answers, if the run learnt from a reward.

    Raises:
        PellucidError: the row does not fit the objective; says what is missing.
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
            return _row_example(run, row, reward=reward)
        case _:
            assert_never(run.config.objective)


def default_loss(run: Run | None, model: Transformer, ids: Tensor) -> ExampleLoss | None:
    """The loss of a plain text: that of the run if it learnt from plain text, else -log p.

    Args:
        run: the run, if there is one.
        model: the model.
        ids: (time,), the text that the model predicts.

    Returns:
        None if the model predicts no token from those before it, or there is one token only.
    """
    if model.decoder is None or not model.has_head or len(ids) < 2:
        return None
    places, targets = torch.arange(len(ids) - 1, device=ids.device), ids[1:]
    plain = TokenLoss(places=places, targets=targets)
    objective = None if run is None else run.config.objective
    match objective:
        case config.NextToken() | config.Seq2Seq():
            return replace(
                plain,
                label_smoothing=objective.label_smoothing,
                z_loss=objective.z_loss,
                entropy_bonus=objective.entropy_bonus,
            )
        case config.Distillation():
            assert run is not None
            return _distilled(run, objective, plain, ids)
        case (
            config.MLM()
            | config.SpanCorruption()
            | config.Classification()
            | config.SFT()
            | config.DPO()
            | config.PolicyGradient()
            | None
        ):
            return plain
        case _:
            assert_never(objective)


def describe_default(run: Run | None) -> str | None:
    """Why the loss of a plain text is not the run's own; None if it is."""
    objective = None if run is None else run.config.objective
    match objective:
        case config.SFT():
            asks = "a prompt with --target ANSWER"
        case config.DPO():
            asks = "a prompt with --target CHOSEN and --rejected REJECTED"
        case config.PolicyGradient():
            asks = "a prompt with --target ANSWER and --reward NAME"
        case (
            config.NextToken()
            | config.Distillation()
            | config.MLM()
            | config.SpanCorruption()
            | config.Seq2Seq()
            | config.Classification()
            | None
        ):
            return None
        case _:
            assert_never(objective)
    return (
        f"this run was trained by {type(objective).__name__}, and a plain text has none of its "
        f"loss: this is -log p of each token. For the run's own loss give {asks}, or --example FILE"
    )


def _distilled(
    run: Run, objective: config.Distillation, plain: TokenLoss, ids: Tensor
) -> DistillationLoss:
    teacher = teacher_of(run)
    with torch.no_grad():
        logits = teacher(ids[None])[0, plain.places]
    return DistillationLoss(
        places=plain.places,
        targets=plain.targets,
        teacher_logits=logits,
        divergence=objective.divergence,
        temperature=objective.temperature,
        hard_weight=objective.hard_weight,
    )


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
    return _token_sentence(run, next(windows), full)


def masked_sentence(run: Run, masked: str, full: str) -> Sentence:
    """A text with masks, and what stands behind them.

    Args:
        run: an encoder with a language head.
        masked: the text with its mask tokens.
        full: the same text without them.

    Raises:
        PellucidError: the two do not fit: they differ elsewhere, or in the number of tokens.
    """
    read, answer = encode_sentence(run, masked), encode_sentence(run, full)
    mask = run.require_tokenizer().roles().get("mask_token", "the mask")
    if not read.masks:
        raise PellucidError(f"the text has no {mask}: write it where a word is to be predicted")
    if len(read.ids) != len(answer.ids):
        raise PellucidError(
            f"the text has {len(read.ids)} tokens with its masks, and the target "
            f"{len(answer.ids)}: each {mask} stands for one token; the target's tokens are "
            f"{' '.join(map(repr, answer.pieces))}"
        )
    for place, (given, expected) in enumerate(zip(read.ids, answer.ids, strict=True)):
        if given != expected and place not in read.masks:
            raise PellucidError(
                f"the text and the target differ at token {place} ({read.pieces[place]!r} and "
                f"{answer.pieces[place]!r}), where there is no {mask}"
            )
    places = torch.tensor(read.masks, device=run.model.device)
    targets = torch.tensor([answer.ids[place] for place in read.masks], device=run.model.device)
    return replace(read, loss=TokenLoss(places=places, targets=targets), is_example=True)


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
    return _pair_sentence(run, next(windows), text)


def _row_example(
    run: Run, row: Row, columns: tuple[str, ...] = (), *, reward: str | None = None
) -> Sentence:
    objective = run.config.objective
    rewards = find_reward(objective, reward)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "example.jsonl"
        file.write_text(json.dumps(dict(row)) + "\n", encoding="utf-8")
        with task_on(_unpacked(run), [str(file)], columns=columns, reward=rewards) as task:
            n_rows = objective.n_samples if isinstance(objective, config.PolicyGradient) else 1
            batch = task.batch(0, n_rows)
    text = " ".join(value for value in row.values() if isinstance(value, str))
    match batch:
        case TokenBatch():
            return _token_sentence(run, batch, text)
        case PairBatch():
            return _pair_sentence(run, batch, text)
        case LabelBatch():
            return _label_sentence(run, batch, text)
        case PreferenceBatch():
            return _preference_sentence(run, batch, text, task)
        case RolloutBatch():
            return _rollout_sentence(run, batch, text)
        case _:
            raise AssertionError(type(batch))  # no other batch is made of rows


def _unpacked(run: Run) -> Run:
    """The run with one conversation in a row."""
    objective = run.config.objective
    if not isinstance(objective, config.SFT):
        return run
    return replace(run, config=replace(run.config, objective=replace(objective, packed=False)))


def _sentence(
    run: Run, ids: Tensor, text: str, loss: ExampleLoss | None, source: Tensor | None = None
) -> Sentence:
    tokenizer, kind = run.require_tokenizer(), kind_of(run.model)
    spelling = Spelling(tokenizer)
    has_masks = kind == "encoder" and run.model.has_head
    mask_id = tokenizer.id_of(tokenizer.roles().get("mask_token", "")) if has_masks else None
    token_ids, source_ids = to_list(ids), None if source is None else to_list(source)
    return Sentence(
        text=text,
        kind=kind,
        ids=tuple(token_ids),
        pieces=tuple(map(spelling.any_piece, token_ids)),
        source_ids=None if source_ids is None else tuple(source_ids),
        source_pieces=tuple(map(spelling.any_piece, source_ids or ())),
        masks=tuple(place for place, token_id in enumerate(token_ids) if token_id == mask_id),
        loss=loss,
        is_example=True,
    )


def _counted(run: Run, batch: TokenBatch | PairBatch, row: int = 0) -> tuple[Tensor, Tensor]:
    """The places of a row that count, and their targets."""
    targets = batch.targets[row].to(run.model.device)
    places = (targets != IGNORED).nonzero().flatten()
    if not len(places):
        raise PellucidError("no token of this example counts: nothing is left to learn from it")
    return places, targets[places]


def _real(batch: TokenBatch, row: int = 0) -> Tensor:
    return batch.ids[row] if batch.padding is None else batch.ids[row][batch.padding[row]]


def _token_sentence(run: Run, batch: TokenBatch, text: str) -> Sentence:
    places, targets = _counted(run, batch)
    return _sentence(run, _real(batch), text, _token_loss(run, places, targets))


def _token_loss(run: Run, places: Tensor, targets: Tensor) -> TokenLoss:
    objective, plain = run.config.objective, TokenLoss(places=places, targets=targets)
    match objective:
        case config.NextToken() | config.SFT() | config.Seq2Seq():
            return replace(
                plain,
                label_smoothing=objective.label_smoothing,
                z_loss=objective.z_loss,
                entropy_bonus=objective.entropy_bonus,
            )
        case _:
            return plain


def _pair_sentence(run: Run, batch: PairBatch, text: str) -> Sentence:
    places, targets = _counted(run, batch)
    ids = batch.ids[0][: int(places[-1]) + 1]
    source = batch.source[0][batch.source_padding[0]]
    return _sentence(run, ids, text, _token_loss(run, places, targets), source)


def _label_sentence(run: Run, batch: LabelBatch, text: str) -> Sentence:
    objective, head = run.config.objective, run.config.model.head
    assert isinstance(objective, config.Classification)
    assert isinstance(head, config.ClassificationHead)
    loss = ClassLoss(
        classes=tuple(head.names),
        labels=batch.labels[0].to(run.model.device),
        label_smoothing=objective.label_smoothing,
    )
    return _sentence(run, batch.ids[0][batch.padding[0]], text, loss)


def _preference_sentence(run: Run, batch: PreferenceBatch, text: str, task: Task) -> Sentence:
    """The chosen answer, with the rejected one as its companion."""
    objective = task.objective
    assert isinstance(objective, DPO)
    with open_reference(objective.reference, run.model) as reference:
        chosen, rejected = (
            _answer(run, answer, text, is_chosen, reference, objective)
            for answer, is_chosen in ((batch.chosen, True), (batch.rejected, False))
        )
    return replace(chosen, companion=rejected)


def _answer(
    run: Run,
    batch: TokenBatch,
    text: str,
    is_chosen: bool,
    reference: Transformer,
    objective: DPO,
) -> Sentence:
    places, targets = _counted(run, batch)
    ids = _real(batch).to(run.model.device)
    states = reference.hidden_states(ids[None])
    rows = torch.full((1, len(ids)), IGNORED, device=ids.device)
    rows[0, places] = targets
    loss = PreferenceLoss(
        places=places,
        targets=targets,
        is_chosen=is_chosen,
        reference_log_ps=row_log_p(reference, states, rows)[0, places],
        beta=objective.beta,
        kind=objective.loss,
        label_smoothing=objective.label_smoothing,
    )
    return _sentence(run, ids, text, loss)


def _rollout_sentence(run: Run, batch: RolloutBatch, text: str) -> Sentence:
    objective = run.config.objective
    assert isinstance(objective, config.PolicyGradient)
    targets = batch.targets[0].to(run.model.device)
    places = (targets != IGNORED).nonzero().flatten()
    if not len(places):
        raise PellucidError("the model's first answer is empty: no token of it can be explained")
    loss = PolicyLoss(
        places=places,
        targets=targets[places],
        rewards=tuple(to_list(batch.rewards)),
        advantage=float(batch.advantages[0]),
        reference_log_ps=batch.reference_log_p[0].to(run.model.device)[places],
        beta=objective.beta,
        kl=objective.kl,
        temperature=objective.temperature,
        entropy_bonus=objective.entropy_bonus,
    )
    return _sentence(run, batch.ids[0][: int(places[-1]) + 1], text, loss)
