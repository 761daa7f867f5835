"""Pictures of the losses of answers: of a preference between two, and of one with a reward."""

from __future__ import annotations

from pellucid.catalogue import message, messages
from pellucid.explain.chapter_types import Bars, Picture, Table, Tokens
from pellucid.explain.losses import compute
from pellucid.explain.losses.names import name_targets
from pellucid.explain.losses.types import PolicyLoss, PreferenceLoss
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list


def tabulate_log_ps(parts: compute.Parts) -> Table:
    """The log-probabilities of both answers, by the model and by its reference."""
    rows = (
        (message("word.chosen"), parts["log_p_chosen"], parts["log_p_reference_chosen"]),
        (message("word.rejected"), parts["log_p_rejected"], parts["log_p_reference_rejected"]),
    )
    return Table(
        title=message("loss.log-p-of-the-two"),
        columns=messages("word.answer", "word.model", "word.reference", "word.gain"),
        rows=tuple(
            (name, policy, reference, policy - reference) for name, policy, reference in rows
        ),
    )


def show_moves(trace: Trace) -> tuple[Picture, ...]:
    """How far each token of both answers moved from the reference."""
    pictures: list[Picture] = []
    for text in (trace, trace.companion):
        if text is None or not isinstance(text.loss, PreferenceLoss):
            continue
        loss = text.loss
        gains = -text["surprisal"].double() - loss.reference_log_ps.double()
        name = message("word.chosen" if loss.is_chosen else "word.rejected")
        pictures.append(
            Tokens(
                title=message("loss.log-log-ref-of-each", name=name),
                pieces=name_targets(text, loss),
                ids=tuple(to_list(loss.targets)),
                values=tuple(to_list(gains)),
                unit="nats",
            )
        )
    return tuple(pictures)


def reward_bars(loss: PolicyLoss) -> Bars:
    """The reward of the answer, and of the others to its prompt."""
    names = (
        message("word.this-answer"),
        *(message("loss.answer", number=n + 2) for n in range(len(loss.rewards) - 1)),
    )
    return Bars(title=message("loss.rewards-of-the-answers-to"), names=names, values=loss.rewards)


def tabulate_policy(parts: compute.Parts) -> Table:
    """The parts of the loss of a sampled answer."""
    names = {
        "reward": message("word.reward"),
        "baseline": message("loss.mean-reward-of-the-others"),
        "advantage": message("word.advantage-a"),
        "log_p": message("loss.log-of-the-answer"),
        "log_ratio": message("loss.log-ref-of-the-answer"),
        "kl_k3": message("loss.kl-from-the-reference-k3"),
    }
    return Table(
        title=message("loss.what-the-loss-is-made"),
        columns=messages("word.part", "word.value"),
        rows=tuple((title, parts[name]) for name, title in names.items()),
    )
