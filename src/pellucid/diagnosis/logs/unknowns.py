"""What cannot be known from what a history has, and how it could be."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.diagnosis.history.history import History

_CALLBACK = (
    "callbacks=[VitalsCallback()] in transformers.Trainer or Lightning, or "
    "`with pellucid.vitals.watch(model, optimizer):` around any loop"
)


def list_unknowns(history: History) -> list[str]:
    """Which signs are missing, which causes therefore look alike, and what to run to know."""
    notes = [*_of_curves(history), *_of_signs(history)]
    if not history.findings and history.config is None:
        notes.append(
            "A curve does not show the code: a missing causal mask, labels that are moved twice "
            "or weights that never learn can leave a healthy loss. `pellucid check MODEL DATA` "
            "asks the model itself, in seconds."
        )
    elif history.config is None:
        notes.append(
            "Whether the code of the model, its labels or its data are to blame is not in a log: "
            "`pellucid check MODEL DATA` asks them, in seconds."
        )
    if history.losses:
        notes.append(
            "Labels with errors and data that are hard look the same, here and everywhere, "
            "without a set that is known to be clean."
        )
    return notes


def _of_curves(history: History) -> Iterable[str]:
    facts = history.facts
    if not history.losses:
        yield "There is no training loss: whether it learns is not known."
    if not history.grad_norms:
        yield (
            "There are no gradient norms: a bad batch and steps that are too large look the same, "
            "and so do a rate of nearly 0 and gradients of nearly 0. Log what clip_grad_norm_ "
            "returns."
        )
    if not history.rates:
        yield (
            "There are no learning rates: a peak that is too high, a warm-up that is too short "
            "and a schedule that ended look the same. Log the rate of each update."
        )
    if len(history.held_out) < 2:
        yield "There is no loss on held-out text: over-fitting would not be seen."
    if facts.vocab_size is None and history.losses:
        yield (
            "The size of the vocabulary is not known, and with it ln V, what guessing costs: say "
            "--vocab-size N to know whether it began there, or never left it."
        )


def _of_signs(history: History) -> Iterable[str]:
    signs = {name.split(".")[0] for name in history.signs}
    missing: list[str] = []
    if "attention" not in signs:
        missing.append(
            "scores of attention (without them, scores that grow until softmax saturates look "
            "like a learning rate that is too high)"
        )
    if not any("profile" in name or "ratio" in name for name in history.signs):
        missing.append(
            "gradients by depth (missing residuals, norms in the wrong place and shuffled labels "
            "all end at the entropy of single tokens)"
        )
    if "update" not in signs:
        missing.append(
            "sizes of updates (a learning rate that is too low, an eps that is too large and "
            "updates lost to rounding look alike)"
        )
    if "stream" not in signs and "norm" not in signs:
        missing.append("variances by depth (weights that start too large or too small)")
    if missing:
        yield f"Not in it: {'; '.join(missing)}. To have them: {_CALLBACK}."
