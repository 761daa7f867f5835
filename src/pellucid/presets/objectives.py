"""The values of `--objective`: each objective with its usual numbers and the preset to start from.

Learning rates for answers, preferences and rewards were measured on `nano` (docs/recipes/
whole-life.md). For larger models they were not measured; those usually need smaller ones.

Sources:
    Devlin et al. 2018, "BERT", section 3.1 (15%, of which 80% masked and 10% replaced); Raffel et
    al. 2019, "T5", section 3.1.4 (15%, spans of 3); Vaswani et al. 2017, section 5.4 (label
    smoothing .1); Rafailov et al. 2023, "Direct Preference Optimization", appendix B (beta .1);
    Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2 (T^2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.config import (
    DPO,
    MLM,
    SFT,
    AdamW,
    Classification,
    ClassificationHead,
    Cosine,
    Distillation,
    Epochs,
    Head,
    NextToken,
    Objective,
    PolicyGradient,
    Seq2Seq,
    SpanCorruption,
    SpecialTokens,
    did_you_mean,
    encode,
    new_objective,
)
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePreset:
    """An objective with its usual settings.

    `preset` is the default preset. `head` replaces the head of the model, if the objective needs
    another one. `tuning` overrides the preset in a run that starts from trained weights, which need
    smaller steps. `special` names tokens that the tokenizer must have. Without `dropout` a run from
    trained weights has none: the model would otherwise differ from its reference by chance before
    it has learnt anything.

    Attributes:
        summary: one line for people.
        objective: the objective with its usual numbers.
    """

    summary: str
    preset: str
    objective: Objective
    head: Head | None = None
    special: SpecialTokens = ()
    dropout: bool = True
    tuning: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _tuning(learning_rate: float, *, epochs: float, batch_size: int) -> dict[str, Any]:
    """Settings with small steps, a few times through the data."""
    return {
        "optimiser": encode(
            AdamW(learning_rate=learning_rate, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
        ),
        "schedule": encode(Cosine(warm_up=0.1, final=0.1)),
        "training": {
            "budget": encode(Epochs(count=epochs)),
            "batch_size": batch_size,
            "clip_norm": 1.0,
            "evaluate_every": 50,
            "checkpoint_every": 50,
        },
    }


#: Every objective by the name that `--objective` takes.
OBJECTIVES: Mapping[str, ObjectivePreset] = {
    "next-token": ObjectivePreset(
        summary="predict each token from those before it",
        preset="nano",
        objective=NextToken(label_smoothing=0.0, z_loss=0.0),
        tuning=_tuning(3e-4, epochs=1, batch_size=8),
    ),
    "mlm": ObjectivePreset(
        summary="fill masked tokens of a text that is seen both ways",
        preset="nano-encoder",
        objective=MLM(chosen=0.15, masked=0.8, replaced=0.1),
        special=("mask",),
        tuning=_tuning(3e-4, epochs=1, batch_size=8),
    ),
    "span-corruption": ObjectivePreset(
        summary="write the spans that were cut out of a text",
        preset="nano-pair",
        objective=SpanCorruption(corrupted=0.15, mean_span=3.0),
        special=("sentinels",),
        tuning=_tuning(3e-4, epochs=1, batch_size=8),
    ),
    "seq2seq": ObjectivePreset(
        summary="write a text while looking at another: translate, summarise",
        preset="nano-pair",
        objective=Seq2Seq(label_smoothing=0.1),
        tuning=_tuning(3e-4, epochs=3, batch_size=32),
    ),
    "classify": ObjectivePreset(
        summary="name the class of a text",
        preset="nano-encoder",
        objective=Classification(label_smoothing=0.0),
        head=ClassificationHead(classes=None, pooling="mean", dropout=0.1, bias=True),
        tuning=_tuning(3e-4, epochs=3, batch_size=32),
    ),
    "sft": ObjectivePreset(
        summary="answer prompts: predict the tokens of answers, from instructions or chats",
        preset="nano",
        objective=SFT(label_smoothing=0.0),
        tuning=_tuning(2e-3, epochs=3, batch_size=8),
    ),
    "distill": ObjectivePreset(
        summary="predict what a teacher predicts",
        preset="nano",
        objective=Distillation(teacher="", divergence="forward", temperature=2.0, hard_weight=0.5),
    ),
    "dpo": ObjectivePreset(
        summary="make the chosen of two answers likelier than the rejected one",
        preset="nano",
        objective=DPO(beta=0.1, loss="sigmoid", label_smoothing=0.0),
        dropout=False,
        tuning=_tuning(3e-4, epochs=1, batch_size=16),
    ),
    "policy-gradient": ObjectivePreset(
        summary="draw answers, and make those with the better reward likelier",
        preset="nano",
        objective=PolicyGradient(
            estimator="rloo",
            beta=0.05,
            kl="in_reward",
            n_samples=4,
            max_new_tokens=64,
            temperature=1.0,
        ),
        dropout=False,
        tuning=_tuning(3e-4, epochs=1, batch_size=16),
    ),
}


def find_objective(name: str) -> ObjectivePreset:
    """The objective called `name`.

    Raises:
        ConfigError: there is none; lists the names.
    """
    name = new_objective(name)
    if name not in OBJECTIVES:
        hint = did_you_mean(name, OBJECTIVES)
        raise ConfigError(f"unknown objective {name!r}{hint}; objectives: {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
