"""The models and data that each objective takes, and the limits of a growing batch or length."""

from __future__ import annotations

from typing import assert_never

from pellucid.config.corpora import Conversations, Labelled, Pairs, Preferences, Prompts
from pellucid.config.model import Transformer
from pellucid.config.objectives import (
    DPO,
    MLM,
    SFT,
    Classification,
    Distillation,
    NextToken,
    Objective,
    PolicyGradient,
    Seq2Seq,
    SpanCorruption,
)
from pellucid.config.output_heads import ClassificationHead, LanguageHead, NoHead
from pellucid.config.text import Corpus, Files, Mixture, Prepared, StandardLibrary
from pellucid.config.training import GrowingBatch, GrowingLength, Growth, Training
from pellucid.errors import ConfigError

Kinds = tuple[type[Corpus], ...]

_TEXT: Kinds = (StandardLibrary, Files, Mixture, Prepared)
_DECODER = ("a decoder with a language head",)
_PAIR = ("an encoder-decoder with a language head",)
_CLASSIFIERS = ("an encoder with a classification head", "a decoder with a classification head")
#: Advice for a run whose data are of another kind.
_ADVICE: dict[Kinds, str] = {
    _TEXT: "name text files, or say which field of a table holds the text with --field",
    (Pairs,): "name a file with pairs, and its columns with --columns source=NAME,target=NAME",
    (Labelled,): "name a file with labels, and its columns with --columns text=NAME,label=NAME",
    (Conversations,): "name a file with prompts and answers, or with messages",
    (Preferences,): "name a file with a chosen and a rejected answer to each prompt",
    (Prompts,): "name a file with prompts, and its column with --columns prompt=NAME",
}


def _requirements(objective: Objective) -> tuple[tuple[str, ...], Kinds]:
    """The models that an objective trains, and the data that it learns from."""
    match objective:
        case NextToken() | Distillation():
            return _DECODER, _TEXT
        case MLM():
            return ("an encoder with a language head",), _TEXT
        case SpanCorruption():
            return _PAIR, _TEXT
        case Seq2Seq():
            return _PAIR, (Pairs,)
        case Classification():
            return _CLASSIFIERS, (Labelled,)
        case SFT():
            return _DECODER, (Conversations,)
        case DPO():
            return _DECODER, (Preferences,)
        case PolicyGradient():
            return _DECODER, (Prompts,)
        case _:
            assert_never(objective)


def data_for(objective: Objective) -> Kinds:
    """The kinds of corpus that an objective learns from."""
    return _requirements(objective)[1]


def continues_text(objective: Objective) -> bool:
    """Whether an objective trains a decoder to continue any text."""
    return _requirements(objective) == (_DECODER, _TEXT)


def check_needs(
    objective: Objective, model: Transformer, corpus: Corpus, start: str | None
) -> None:
    """Refuse a model, data or first weights that the objective cannot use.

    Args:
        objective: the loss of the run.
        model: the model to train.
        corpus: the data to learn from.
        start: the weights that the run starts from; None for random ones.

    Raises:
        ConfigError: says what the objective takes, and what to do.
    """
    name = type(objective).__name__
    models, data = _requirements(objective)
    model_shape = _shape(model)
    if model_shape not in models:
        raise ConfigError(
            f"objective {name} trains {' or '.join(models)}, and this model is {model_shape}: "
            "choose another preset (pellucid presets list), or another objective with --objective "
            "(pellucid presets list --objectives)"
        )
    if not isinstance(corpus, data):
        raise ConfigError(
            f"objective {name} learns from {' or '.join(kind.__name__ for kind in data)}, and "
            f"text.corpus is {type(corpus).__name__}: {_ADVICE[data]}, or choose another objective "
            "with --objective (pellucid presets list --objectives)"
        )
    if start is None and isinstance(objective, DPO | PolicyGradient):
        raise ConfigError(
            f"objective {name} compares the model with its first weights, and the first weights "
            "of this run are random: start from a model that already answers, with --from RUN"
        )


def check_growth(training: Training, model: Transformer) -> None:
    """Refuse a first size that does not become the full size by doubling.

    Raises:
        ConfigError: names the first sizes that do, and how to have no growth.
    """
    match training.growth:
        case GrowingBatch():
            name, full, parts = "training.batch_size", training.batch_size, training.accumulation
        case GrowingLength():
            name, full, parts = "model.context_length", model.context_length, 1
        case None:
            return
        case _:
            assert_never(training.growth)
    halves = [full // 2**n for n in range(1, full.bit_length()) if full % (2**n * parts) == 0]
    if training.growth.first not in halves:
        sizes = f"it can be {', '.join(map(str, halves))}" if halves else "that has no half"
        equal_parts = f" in {parts} equal parts (training.accumulation)" if parts > 1 else ""
        raise ConfigError(
            f"training.growth.first doubles until it is {name}, {full}{equal_parts}: {sizes}, "
            f"was {training.growth.first}; --set training.growth=none leaves growth out"
        )


def check_cut(growth: Growth | None, objective: Objective) -> None:
    """Refuse growth for data that is not rows of text.

    Raises:
        ConfigError: names the data or growth to use instead.
    """
    if growth is None:
        return
    name, kind = type(objective).__name__, type(growth).__name__
    if data_for(objective) != _TEXT:
        raise ConfigError(
            f"training.growth is {kind}, and rows of {name} are whole examples, in batches of "
            "about one length: pass --set training.growth=none, or learn from text"
        )
    if isinstance(growth, GrowingLength) and isinstance(objective, SpanCorruption):
        raise ConfigError(
            "training.growth is GrowingLength, and the spans of SpanCorruption cannot be cut "
            "again: pass --set training.growth=none, or take GrowingBatch"
        )


def _shape(model: Transformer) -> str:
    """The stacks and head of a model, in words."""
    head = {
        LanguageHead: "a language head",
        ClassificationHead: "a classification head",
        NoHead: "no head",
    }[type(model.head)]
    if model.encoder is None:
        return f"a decoder with {head}"
    return f"{'an encoder' if model.decoder is None else 'an encoder-decoder'} with {head}"
