"""What the parts of a loss and the measures of held-out data are called, for a person.

A name that is not known here is shown as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pellucid.display.numbers import short

Better = Literal["lower", "higher", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How one number is shown.

    Args:
        name: what the number is called where it was measured.
        title: what it is called in full.
        label: the same in at most 14 columns, where numbers stand beside each other.
        unit: what stands behind the number; its label, where the number has no unit.
        better: which way is better, where one is.
        digits: after the point.
        says: one sentence on how to read it.
        in_panel: whether it is news for who watches, and not only for the report.
    """

    name: str
    title: str
    label: str
    unit: str = ""
    better: Better = ""
    digits: int = 4
    says: str = ""
    in_panel: bool = True

    def number(self, value: float) -> str:
        """The value alone; in at most eight columns, with its digits where they fit."""
        if not math.isfinite(value) or abs(value) >= 10_000:
            return short(value)
        digits = max(0, self.digits - (2 if abs(value) >= 100 else 0))
        return f"{value:.{digits}f}"

    def with_unit(self, value: float) -> str:
        """The value and what it is: 1.5129 bits/byte, 0.8840 F1."""
        return f"{self.number(value)} {self.unit or self.label}"

    @property
    def reads(self) -> str:
        """How to read it, and which way is better."""
        better = f"{self.better.capitalize()} is better." if self.better else ""
        return " ".join(part for part in (better, self.says) if part)


def _define(
    name: str,
    title: str,
    label: str,
    better: Better = "",
    says: str = "",
    *,
    unit: str = "",
    digits: int = 4,
    in_panel: bool = True,
) -> Measured:
    return Measured(
        name=name,
        title=title,
        label=label,
        unit=unit,
        better=better,
        digits=digits,
        says=says,
        in_panel=in_panel,
    )


_KL = "How far the model has moved from the reference"

#: In this order measures are told: the first one there is says most.
_MEASURES = (
    _define(
        "bits_per_byte",
        "bits per byte",
        "bits/byte",
        "lower",
        "The same loss for each byte of text: comparable between tokenizers.",
        unit="bits/byte",
    ),
    _define("bleu", "BLEU", "BLEU", "higher", "Shared runs of one to four words.", digits=2),
    _define("chrf", "chrF", "chrF", "higher", "Shared runs of one to six letters.", digits=2),
    _define("f1", "F1", "F1", "higher", "The harmonic mean of precision and recall."),
    _define("macro_f1", "F1, mean over classes", "macro F1", "higher", "Every class counts alike."),
    _define("micro_f1", "F1 over all answers", "micro F1", "higher", "Every answer counts alike."),
    _define(
        "preference_accuracy",
        "preference accuracy",
        "pairs right",
        "higher",
        "The share of pairs whose chosen answer is preferred; guessing has 0.5.",
    ),
    _define("accuracy", "accuracy", "accuracy", "higher", "The share that is right."),
    _define("exact_match", "exact match", "exact match", "higher", "The share that is the same."),
    _define("reward", "reward", "reward", "higher", "The mean reward of the answers drawn."),
    _define("precision", "precision", "precision", "higher", "The share of what was named."),
    _define("recall", "recall", "recall", "higher", "The share that was found."),
    _define(
        "macro_precision",
        "precision, mean over classes",
        "macro prec.",
        "higher",
        in_panel=False,
    ),
    _define("macro_recall", "recall, mean over classes", "macro recall", "higher", in_panel=False),
    _define(
        "ece",
        "expected calibration error",
        "calibration",
        "lower",
        "How far confidence is from the share that is right, on average.",
        in_panel=False,
    ),
    _define(
        "brier",
        "Brier score",
        "Brier",
        "lower",
        "The squared error of the probabilities.",
        in_panel=False,
    ),
    _define(
        "perplexity",
        "perplexity",
        "perplexity",
        "lower",
        "As if guessing evenly among so many tokens.",
        digits=2,
    ),
    _define("tokens_per_answer", "tokens per answer", "tokens/answer", digits=1),
)

_PARTS = (
    _define("loss_nats", "loss", "loss", "lower", unit="nats"),
    _define("hard_nats", "loss of the tokens themselves", "hard loss", "lower", unit="nats"),
    _define(
        "divergence",
        "divergence from the teacher",
        "divergence",
        "lower",
        "What separates the model's distribution from its teacher's.",
        unit="nats",
    ),
    _define(
        "margin",
        "margin",
        "margin",
        "higher",
        "How much more the chosen answer has gained over the reference than the rejected one.",
    ),
    _define("chosen_reward", "reward of the chosen", "chosen reward", "higher"),
    _define("rejected_reward", "reward of the rejected", "rejected rew.", "lower"),
    _define("kl_exact", "KL to the reference, exact", "KL", "lower", f"{_KL}.", unit="nats"),
    _define("kl_k1", "KL to the reference, k1", "KL (k1)", "", f"{_KL}, without bias; may be < 0."),
    _define("kl_k2", "KL to the reference, k2", "KL (k2)", "lower", f"{_KL}, by squares."),
    _define("kl_k3", "KL to the reference, k3", "KL (k3)", "lower", f"{_KL}; never below 0."),
    _define("advantage", "advantage", "advantage"),
    _define("entropy", "entropy", "entropy", "", "How undecided the model is.", unit="nats"),
    _define("penalty", "penalty", "penalty", "lower", "What the weights themselves cost."),
    _define(
        "zeros", "penalised weights that are zero", "zeros", "", "The share of them.", unit="zero"
    ),
    _define(
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

KNOWN = {measured.name: measured for measured in (*_MEASURES, *_PARTS)}
_ORDER = {name: place for place, name in enumerate(KNOWN)}
_LABEL_COLUMNS = 14
#: What is no news where the other is told: of two classes, one is looked for.
_SAID_BETTER = {"macro_f1": "f1"}


def measured(name: str) -> Measured:
    """How the number of this name is shown; as it is, where it is not known here."""
    if name in KNOWN:
        return KNOWN[name]
    label = name if len(name) <= _LABEL_COLUMNS else name[: _LABEL_COLUMNS - 1] + "…"
    return Measured(name=name, title=name, label=label)


def in_order(values: Iterable[tuple[str, float]]) -> list[tuple[Measured, float]]:
    """Measures with their values, the most telling first; unknown ones last, as they came."""
    measures = [(measured(name), value) for name, value in values]
    return sorted(measures, key=lambda pair: _ORDER.get(pair[0].name, len(_ORDER)))


def news(values: Iterable[tuple[str, float]]) -> list[tuple[Measured, float]]:
    """Those of them that are for who watches, the most telling first."""
    values_by_name = dict(values)
    return [
        pair
        for pair in in_order(values_by_name.items())
        if pair[0].in_panel and _SAID_BETTER.get(pair[0].name) not in values_by_name
    ]


def nats_per(unit: str) -> str:
    """tokens -> nats/token: the unit of a loss over terms of that kind."""
    return f"nats/{one_of(unit)}"


def one_of(unit: str) -> str:
    """One of them: tokens -> token."""
    return unit.removesuffix("s")


def guessing(nats: float, unit: str) -> str:
    """The loss of guessing evenly, and what it is the logarithm of: V tokens, 2 answers."""
    if unit == "tokens":
        return f"{nats:.4f} nats/token = ln V"
    n = round(math.exp(min(nats, 30.0)))
    among = f" = ln {n}" if math.isclose(math.log(n), nats, rel_tol=1e-4) else ""
    return f"{nats:.4f} {nats_per(unit)}{among}"
