"""List the faults that a history cannot show, and how to find them."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.diagnosis.history.history import History

_CALLBACK = (
    "callbacks=[VitalsCallback()] in transformers.Trainer or Lightning, or "
    "`with pellucid.vitals.watch(model, optimizer):` around any loop"
)


def list_unknowns(history: History) -> list[str]:
    """The missing signs, the causes that look alike without them, and the command that helps."""
    notes = [*_missing_curves(history), *_missing_signs(history)]
    if not history.findings and history.config is None:
        notes.append(
            "A curve does not show the code: the loss can look healthy with a missing causal mask, "
            "labels that are shifted twice or weights that never learn. `pellucid check MODEL "
            "DATA` tests the model itself, in seconds."
        )
    elif history.config is None:
        notes.append(
            "A log does not show whether the model's code, its labels or its data are at fault: "
            "`pellucid check MODEL DATA` tests them, in seconds."
        )
    if history.losses:
        notes.append(
            "Wrong labels and hard data look the same, here and everywhere, without examples that "
            "are known to be correct."
        )
    return notes


def _missing_curves(history: History) -> Iterable[str]:
    if not history.losses and not history.facts.on_rewards:
        yield "There is no training loss: it is unknown whether the model learns."
    if not history.grad_norms:
        yield (
            "There are no gradient norms: a bad batch and steps that are too large look the same, "
            "and so do a rate of nearly 0 and gradients of nearly 0. Log the value that "
            "clip_grad_norm_ returns."
        )
    if not history.rates:
        yield (
            "There are no learning rates: a peak that is too high, a warm-up that is too short "
            "and a schedule that ended look the same. Log the rate of each update."
        )
    if len(history.held_out) < 2:
        yield "There is no held-out loss: it is unknown whether the model over-fits."
    is_guessed = history.facts.on_preferences or history.facts.on_rewards
    if history.facts.vocab_size is None and history.losses and not is_guessed:
        yield (
            "The size of the vocabulary is unknown, and so is ln V, the loss of guessing. Pass "
            "--vocab-size N to compare the loss with it."
        )


def _missing_signs(history: History) -> Iterable[str]:
    groups = {name.split(".")[0] for name in history.signs}
    has_depth = any("profile" in name or "ratio" in name for name in history.signs)
    is_present = {
        "attention scores (without them, scores that grow until the softmax saturates look like a "
        "learning rate that is too high)": "attention" in groups,
        "gradients by depth (missing residuals, norms in the wrong place and shuffled labels all "
        "end at the entropy of single tokens)": has_depth,
        "sizes of updates (a learning rate that is too low, an eps that is too large and updates "
        "lost to rounding look alike)": "update" in groups,
        "variances by depth (weights that start too large or too small)": bool(
            {"stream", "norm"} & groups
        ),
    }
    missing = [signs for signs, present in is_present.items() if not present]
    if missing:
        yield f"Missing signs: {'; '.join(missing)}. To record them: {_CALLBACK}."
