"""Labels for the parts of a loss and the measures of held-out data.

A name without a label is shown as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from pellucid.display.numbers import short

Better = Literal["lower", "higher", ""]


@dataclass(frozen=True, slots=True)
class Measured:
    """How one number is shown.

    Args:
        name: The name of the number in events.
        title: Its full name.
        label: A name of at most 14 columns, for tables.
        better: Which direction is better, if one is.
        meaning: One sentence on how to read it.
        unit: The unit after the number; its label if it has no unit.
        digits: Digits after the point.
        in_panel: Whether the panel shows it, and not only the report.
    """

    name: str
    title: str
    label: str
    better: Better = ""
    meaning: str = ""
    _: KW_ONLY
    unit: str = ""
    digits: int = 4
    in_panel: bool = True

    def number(self, value: float) -> str:
        """The value alone, in at most eight columns, with its digits if they fit."""
        if not math.isfinite(value) or abs(value) >= 10_000:
            return short(value)
        digits = max(0, self.digits - (2 if abs(value) >= 100 else 0))
        return f"{value:.{digits}f}"

    def with_unit(self, value: float) -> str:
        """The value with its unit or label: 1.5129 bits/byte, 0.8840 F1."""
        return f"{self.number(value)} {self.unit or self.label}"

    @property
    def reads(self) -> str:
        """Which direction is better, and how to read it."""
        better = f"{self.better.capitalize()} is better." if self.better else ""
        return " ".join(part for part in (better, self.meaning) if part)


_KL = "How far the model has moved from the reference"

#: In the order in which measures are listed: the most informative one comes first.
_MEASURES = (
    Measured(
        "bits_per_byte",
        "bits per byte",
        "bits/byte",
        "lower",
        "The same loss for each byte of text: comparable between tokenizers.",
        unit="bits/byte",
    ),
    Measured("bleu", "BLEU", "BLEU", "higher", "Shared runs of one to four words.", digits=2),
    Measured("chrf", "chrF", "chrF", "higher", "Shared runs of one to six letters.", digits=2),
    Measured("f1", "F1", "F1", "higher", "The harmonic mean of precision and recall."),
    Measured(
        "macro_f1", "F1, mean over classes", "macro F1", "higher", "Every class counts alike."
    ),
    Measured("micro_f1", "F1 over all answers", "micro F1", "higher", "Every answer counts alike."),
    Measured(
        "preference_accuracy",
        "preference accuracy",
        "pairs right",
        "higher",
        "The share of pairs whose chosen answer is preferred; guessing has 0.5.",
    ),
    Measured("accuracy", "accuracy", "accuracy", "higher", "The share that is right."),
    Measured("exact_match", "exact match", "exact match", "higher", "The share that is the same."),
    Measured("reward", "reward", "reward", "higher", "The mean reward of the answers drawn."),
    Measured(
        "precision", "precision", "precision", "higher", "The share of positives that are right."
    ),
    Measured("recall", "recall", "recall", "higher", "The share of positives that are found."),
    Measured(
        "macro_precision",
        "precision, mean over classes",
        "macro prec.",
        "higher",
        in_panel=False,
    ),
    Measured("macro_recall", "recall, mean over classes", "macro recall", "higher", in_panel=False),
    Measured(
        "ece",
        "expected calibration error",
        "calibration",
        "lower",
        "How far confidence is from the share that is right, on average.",
        in_panel=False,
    ),
    Measured(
        "brier",
        "Brier score",
        "Brier",
        "lower",
        "The squared error of the probabilities.",
        in_panel=False,
    ),
    Measured(
        "perplexity",
        "perplexity",
        "perplexity",
        "lower",
        "As if guessing evenly among so many tokens.",
        digits=2,
    ),
    Measured("tokens_per_answer", "tokens per answer", "tokens/answer", digits=1),
)

_PARTS = (
    Measured("loss_nats", "loss", "loss", "lower", unit="nats"),
    Measured("hard_nats", "loss of the tokens themselves", "hard loss", "lower", unit="nats"),
    Measured(
        "divergence",
        "divergence from the teacher",
        "divergence",
        "lower",
        "What separates the model's distribution from its teacher's.",
        unit="nats",
    ),
    Measured(
        "margin",
        "margin",
        "margin",
        "higher",
        "How much more the chosen answer has gained over the reference than the rejected one.",
    ),
    Measured("chosen_reward", "reward of the chosen", "chosen reward", "higher"),
    Measured("rejected_reward", "reward of the rejected", "rejected rew.", "lower"),
    Measured("kl_exact", "KL to the reference, exact", "KL", "lower", f"{_KL}.", unit="nats"),
    Measured(
        "kl_k1", "KL to the reference, k1", "KL (k1)", "", f"{_KL}, without bias; may be < 0."
    ),
    Measured("kl_k2", "KL to the reference, k2", "KL (k2)", "lower", f"{_KL}, by squares."),
    Measured("kl_k3", "KL to the reference, k3", "KL (k3)", "lower", f"{_KL}; never below 0."),
    Measured("advantage", "advantage", "advantage"),
    Measured("entropy", "entropy", "entropy", "", "How undecided the model is.", unit="nats"),
    Measured(
        "load_loss",
        "load-balancing loss",
        "load loss",
        "lower",
        "How unevenly experts are used: the number of experts of a token if all are used alike.",
    ),
    Measured(
        "router_z_loss",
        "z-loss of the routers",
        "router z",
        "lower",
        "The mean of (log Z)^2 of the routers.",
        in_panel=False,
    ),
    Measured("penalty", "penalty", "penalty", "lower", "What the weights themselves cost."),
    Measured(
        "zeros", "penalised weights that are zero", "zeros", "", "The share of them.", unit="zero"
    ),
    Measured(
        "log_z",
        "log Z",
        "log Z",
        "",
        "The logarithm of what softmax divides by. A steady climb or fall is a drift of all "
        "logits, which the loss does not see.",
        unit="nats",
        in_panel=False,
    ),
)

LABELS = {measured.name: measured for measured in (*_MEASURES, *_PARTS)}
_ORDER = {name: place for place, name in enumerate(LABELS)}
_LABEL_COLUMNS = 14
#: A measure that is not shown if the other one is: with two classes, F1 of one says it better.
_BETTER_MEASURE = {"macro_f1": "f1"}


def measured(name: str) -> Measured:
    """How to show the number of this name; a name without a label is its own label."""
    if name in LABELS:
        return LABELS[name]
    label = name if len(name) <= _LABEL_COLUMNS else name[: _LABEL_COLUMNS - 1] + "…"
    return Measured(name, name, label)


def in_order(values: Iterable[tuple[str, float]]) -> list[tuple[Measured, float]]:
    """Measures with their values, the most informative first; unknown ones last, in their order."""
    measures = [(measured(name), value) for name, value in values]
    return sorted(measures, key=lambda pair: _ORDER.get(pair[0].name, len(_ORDER)))


def news(values: Iterable[tuple[str, float]]) -> list[tuple[Measured, float]]:
    """The measures for the panel, the most informative first."""
    values_by_name = dict(values)
    return [
        pair
        for pair in in_order(values_by_name.items())
        if pair[0].in_panel and _BETTER_MEASURE.get(pair[0].name) not in values_by_name
    ]


def nats_per(unit: str) -> str:
    """tokens -> nats/token: the unit of a loss over tokens."""
    return f"nats/{singular(unit)}"


def singular(unit: str) -> str:
    """The singular: tokens -> token."""
    return unit.removesuffix("s")


def guessing(nats: float, unit: str) -> str:
    """The loss of a uniform guess, and the number of choices: V tokens, 2 answers."""
    if unit == "tokens":
        return f"{nats:.4f} nats/token = ln V"
    n = round(math.exp(min(nats, 30.0)))
    choices = f" = ln {n}" if math.isclose(math.log(n), nats, rel_tol=1e-4) else ""
    return f"{nats:.4f} {nats_per(unit)}{choices}"
