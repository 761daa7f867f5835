"""The loss of every objective and its terms, and the gradient of each term by the logits."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Equation, Source
from pellucid.explain.equations.vocabulary import (
    class_scores,
    log_ratio,
    scores_at_places,
    softplus,
)
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Read,
    Total,
    setting,
)
from pellucid.explain.losses import compute
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.outputs import require_loss
from pellucid.explain.trace_types import Trace

LOSS_SOURCE: Source = (compute.loss_value, "def loss_value(")


def loss(trace: Trace, site: Site) -> Equation:
    """The loss, from its terms."""
    stated = require_loss(trace)
    formula, text = _loss(trace, stated)
    return Equation(
        formula=formula,
        axes=(),
        title=message("equations.loss-of-the-example")
        if trace.sentence.is_example
        else message("equations.loss-of-the-sentence"),
        text=text,
        source=LOSS_SOURCE,
    )


def _loss(trace: Trace, stated: ExampleLoss) -> tuple[Formula, str]:
    match stated:
        case TokenLoss():
            return _token_loss(trace, stated)
        case DistillationLoss():
            n, hard = len(stated.places), setting(stated.hard_weight, "h")
            temperature = setting(stated.temperature, "T")
            soft = temperature * temperature * _mean("divergence", "D(teacher, student)", n)
            return (
                (1.0 - hard) * soft + hard * _mean("surprisal", "surprisals", n),
                "(1 - h) T² Σ D(teacher, student) / n + h Σ surprisals / n",
            )
        case PreferenceLoss():
            return _preference_loss(stated)
        case PolicyLoss():
            return _policy_loss(stated)
        case ClassLoss():
            return _class_loss(trace, stated)
        case _:
            assert_never(stated)


def _mean(address: str, name: str, n: int) -> Formula:
    return Total("t", n, Read(address, ("t",), name)) / setting(n, "n")


def _token_loss(trace: Trace, stated: TokenLoss) -> tuple[Formula, str]:
    n = len(stated.places)
    formula, text = _mean("surprisal", "surprisals", n), "Σ surprisals / n"
    log_sum = Read("log_z", ("t",), "log Z")
    if stated.label_smoothing:
        z, share = scores_at_places(trace, stated), setting(stated.label_smoothing, "s")
        mean_z = z.over_words(z.score) / setting(z.n_words, "words")
        even = Total("t", n, log_sum - mean_z) / setting(n, "n")
        formula = (1.0 - share) * formula + share * even
        text = "(1 - s) Σ surprisals / n + s Σ (log Z - Σ z / words) / n"
    if stated.z_loss:
        square = Total("t", n, log_sum * log_sum) / setting(n, "n")
        formula = formula + setting(stated.z_loss, "z_loss") * square
        text += " + z_loss Σ (log Z)² / n"
    if stated.entropy_bonus:
        bonus = setting(stated.entropy_bonus, "entropy_bonus")
        formula, text = (
            formula - bonus * _mean("entropy", "H", n),
            f"{text} - entropy_bonus Σ H / n",
        )
    return formula, text


def _preference_loss(stated: PreferenceLoss) -> tuple[Formula, str]:
    z = Read("margin", (), "z")
    match stated.kind:
        case "hinge":
            return (1.0 - z).clamp_min(0.0), "max(0, 1 - z)"
        case "sigmoid":
            if not stated.label_smoothing:
                return softplus(-z), "-log σ(z)"
            share = setting(stated.label_smoothing, "s")
            formula = (1.0 - share) * softplus(-z) + share * softplus(z)
            return formula, "-(1 - s) log σ(z) - s log σ(-z)"
        case _:
            assert_never(stated.kind)


def _policy_loss(stated: PolicyLoss) -> tuple[Formula, str]:
    n, beta = len(stated.places), setting(stated.beta, "β")
    text = "-A Σ log π"
    formula: Formula = -(setting(stated.advantage, "A") * Total("t", n, Read("log_p", ("t",))))
    match stated.kl:
        case "in_reward":
            pass
        case "k2":
            ratio = Total("t", n, log_ratio())
            formula, text = (
                formula + beta * (ratio * ratio / 2.0),
                f"{text} + β (Σ log(ref/π))² / 2",
            )
        case "k3":
            terms = Total("t", n, log_ratio().apply("exp") - 1.0 - log_ratio())
            formula, text = formula + beta * terms, f"{text} + β Σ (ref/π - 1 - log(ref/π))"
        case _:
            assert_never(stated.kl)
    if stated.entropy_bonus:
        bonus = setting(stated.entropy_bonus, "entropy_bonus")
        formula = formula - bonus * Total("t", n, Read("entropy", ("t",), "H"))
        text += " - entropy_bonus Σ H"
    return formula, text


def _class_loss(trace: Trace, stated: ClassLoss) -> tuple[Formula, str]:
    z = class_scores(trace)
    n = z.n_words
    if stated.multi_label:
        sign = Constant(1.0 - 2.0 * stated.labels.double().cpu(), ("l",), "sign")
        total = Total("l", n, softplus(sign * z.score("l")))
        text = "-Σ log σ(±z) / classes"
        return total / setting(n, "classes"), text
    plain = -z.share(int(stated.labels)).apply("log")
    if not stated.label_smoothing:
        return plain, "-log p"
    share = setting(stated.label_smoothing, "s")
    even = Total("l", n, -z.share("l").apply("log")) / setting(n, "classes")
    text = "-(1 - s) log p - s Σ log p / classes"
    return (1.0 - share) * plain + share * even, text
