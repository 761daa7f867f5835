"""An example from its texts: a question, and what the run should make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

import torch

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.explain.losses.batches import example_sentence
from pellucid.explain.losses.examples import Row, row_example
from pellucid.explain.losses.masked import masked_sentence
from pellucid.explain.losses.plain_text import default_loss
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    TokenLoss,
)
from pellucid.explain.sentence import Sentence, encode_sentence, refuse_long
from pellucid.inference.classification import class_names, has_several_labels
from pellucid.runs import Run
from pellucid.saved_runs.requirements import kind_of
from pellucid.typed import to_list


def example_in_words(
    run: Run,
    text: str,
    target: str | None,
    rejected: str | None = None,
    reward: str | None = None,
) -> Sentence:
    """An example from its texts.

    Args:
        run: the run; its objective is meant.
        text: a text with masks, a text to classify, a source, a prompt or a question.
        target: the whole text, the class, or the text to write; None for a run that learnt from a
            reward, which samples an answer itself.
        rejected: the answer that is not preferred, for a run that learnt from preferences.
        reward: what judges answers, for a run that learnt from a reward.

    Raises:
        PellucidError: the texts do not fit the objective; names the missing text.
    """
    kind, objective = kind_of(run.model), run.config.objective
    if rejected is not None and target is None:
        raise ConfigError(
            "a rejected answer was given without the chosen one: give that too (--target)"
        )
    if rejected is not None and not isinstance(objective, config.DPO):
        raise ConfigError(
            f"a rejected answer was given, but this run was trained by {type(objective).__name__}: "
            "only preferences (DPO) have one; leave it out"
        )
    if isinstance(objective, config.PolicyGradient):
        return row_example(run, {"prompt": text}, ("prompt=prompt",), reward=reward, answer=target)
    if reward is not None:
        raise ConfigError(
            f"a reward was given, but this run was trained by {type(objective).__name__}: only a "
            "run that learnt from rewards (PolicyGradient) has one; leave it out"
        )
    assert target is not None  # a text alone is no example
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
            return row_example(run, *_conversation(run, text, target))
        case config.DPO():
            if rejected is None:
                raise ConfigError(
                    "this run learnt from pairs of answers: give the rejected one too (--rejected)"
                )
            row = {"prompt": text, "chosen": target, "rejected": rejected}
            return row_example(run, row, tuple(f"{name}={name}" for name in row))
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
    """A text and its continuation, which alone counts."""
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
    return example_sentence(run, ids, text + target, replace(loss, **changes))


def _classified(run: Run, text: str, target: str) -> Sentence:
    """A text and its class, or its classes with commas between them."""
    names, sentence = class_names(run), encode_sentence(run, text)
    multi_label = has_several_labels(run)
    class_list = [part.strip() for part in target.split(",")] if multi_label else [target.strip()]
    class_list = [name for name in class_list if name]
    unknown = next((name for name in class_list if name not in names), None)
    if unknown is not None or not (multi_label or class_list):
        raise ConfigError(
            f"the target {target!r} is no class of this run: it has {', '.join(names)}"
        )
    numbers = [names.index(name) for name in class_list]
    has_class = [n in numbers for n in range(len(names))]
    labels = torch.tensor(has_class if multi_label else numbers[0])
    objective = run.config.objective
    smoothing = objective.label_smoothing if isinstance(objective, config.Classification) else 0.0
    loss = ClassLoss(
        classes=tuple(names),
        labels=(labels.float() if multi_label else labels).to(run.model.device),
        label_smoothing=smoothing,
    )
    return replace(sentence, loss=loss, is_example=True)
