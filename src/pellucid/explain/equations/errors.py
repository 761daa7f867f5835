"""The gradient of each term of a loss by the logits: p - y, or its kin for every objective."""

from __future__ import annotations

from typing import assert_never

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Env,
    Equation,
    Source,
    sigmoid,
)
from pellucid.explain.equations.losses import LOSS_SOURCE
from pellucid.explain.equations.vocabulary import (
    ROWS_AND_WORDS,
    TwoPredictions,
    WordScores,
    class_scores,
    log_ratio,
    log_share,
    scores_at_places,
    targets_one_hot,
)
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Masked,
    Places,
    Read,
    Total,
    setting,
)
from pellucid.explain.losses import compute
from pellucid.explain.losses.names import describe_error, describe_place, name_class, piece
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.explain.outputs import require_loss
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_ERROR_SOURCE: Source = (compute.errors, "torch.autograd.grad(loss_value")


def error(trace: Trace, site: Site) -> Equation:
    """The gradient of a term of the loss by one logit: p - y, or what the objective has for it."""
    stated = require_loss(trace)
    if isinstance(stated, ClassLoss):
        formula, text = _class_error(trace, stated)
        return Equation(
            formula=formula,
            axes=ROWS_AND_WORDS,
            title=lambda env: message(
                "equations.gradient-by-the-logit-of", class_name=name_class(stated, env["v"])
            ),
            text=text,
            source=_ERROR_SOURCE,
        )
    formula, text = _tokens_error(trace, stated)
    targets: list[int] = to_list(stated.targets)
    places: list[int] = to_list(stated.places)
    is_plain = isinstance(stated, TokenLoss) and stated.is_plain

    def write(env: Env) -> str:  # the target of a plain loss is certain
        return f"{text} - {int(env['v'] == targets[env['t']])}" if is_plain else text

    return Equation(
        formula=formula,
        axes=ROWS_AND_WORDS,
        title=lambda env: message(
            "equations.of",
            error=describe_error(stated),
            word=piece(trace, env["v"]),
            place=describe_place(trace, places[env["t"]]),
        ),
        text=write,
        source=_ERROR_SOURCE,
    )


def _tokens_error(trace: Trace, stated: TokensLoss) -> tuple[Formula, str]:
    p, y = scores_at_places(trace, stated).share(), targets_one_hot(trace, stated)
    match stated:
        case TokenLoss():
            return _token_error(trace, stated)
        case DistillationLoss():
            soft, text = _distillation_error(trace, stated)
            hard, temperature = setting(stated.hard_weight, "h"), setting(stated.temperature, "T")
            return (
                (1.0 - hard) * temperature * soft + hard * (p - y),
                f"(1 - h) T ({text}) + h (p - y)",
            )
        case PreferenceLoss():
            return _preference_weight(stated) * (p - y), "w (p - y), w = ±β σ(-z)"
        case PolicyLoss():
            return _policy_error(trace, stated)
        case _:
            assert_never(stated)


def _token_error(trace: Trace, stated: TokenLoss) -> tuple[Formula, str]:
    z, s = scores_at_places(trace, stated), stated.label_smoothing
    p, y = z.share(), targets_one_hot(trace, stated)
    if stated.is_plain:
        return p - y, "exp(z - max) / Σ exp(z - max)"
    target: Formula = y
    text = "p - y"
    if s:
        share = setting(s, "s")
        target = (1.0 - share) * y + share / setting(z.n_words, "words")
        text = "p - ((1 - s) y + s / words)"
    formula: Formula = p - target
    if stated.z_loss:
        log_sum = Read("log_z", ("t",), "log Z")
        formula = formula + 2.0 * setting(stated.z_loss, "z_loss") * log_sum * p
        text += " + 2 z_loss log Z p"
    if stated.entropy_bonus:
        formula = formula + _entropy_error(stated.entropy_bonus, z)
        text += _ENTROPY_TEXT
    return formula, text


_ENTROPY_TEXT = " + entropy_bonus p (log p + H)"


def _entropy_error(bonus: float, z: WordScores) -> Formula:
    """What the bonus of the entropy adds."""
    log_p = log_share(z)
    entropy_there = Read("entropy", ("t",), "H")
    return setting(bonus, "entropy_bonus") * log_p.apply("exp") * (log_p + entropy_there)


def _distillation_error(trace: Trace, stated: DistillationLoss) -> tuple[Formula, str]:
    """The divergence's gradient by z / T."""
    pair = TwoPredictions(trace.model.head_weight.shape[0])
    match stated.divergence:
        case "forward":
            return pair.p() - pair.q(), "p - q"
        case "reverse":
            difference = pair.log_p() - pair.log_q() - Read("divergence", ("t",), "D")
            return pair.p() * difference, "p (log p/q - D)"
        case "jensen_shannon":
            difference = pair.log_p() - pair.log_middle() - pair.p_over_middle()
            text = "p (log p/m - KL(p || m)) / 2, m = (p + q) / 2"
            return pair.p() * difference / 2.0, text
        case _:
            assert_never(stated.divergence)


def _preference_weight(stated: PreferenceLoss) -> Formula:
    """By how much the loss falls if log P of this answer rises; below 0 for the rejected one."""
    z, s = Read("margin", (), "z"), stated.label_smoothing
    match stated.kind:
        case "hinge":
            slope: Formula = (1.0 - z).apply("step")
        case "sigmoid":
            slope = sigmoid(-z)
            if s:
                share = setting(s, "s")
                slope = (1.0 - share) * slope - share * sigmoid(z)
        case _:
            assert_never(stated.kind)
    return setting(stated.beta if stated.is_chosen else -stated.beta, "±β") * slope


def _policy_error(trace: Trace, stated: PolicyLoss) -> tuple[Formula, str]:
    z, n = scores_at_places(trace, stated, stated.temperature), len(stated.places)
    weight: Formula = setting(stated.advantage, "A")
    text, beta = "A", setting(stated.beta, "β")
    match stated.kl:
        case "in_reward":
            pass
        case "k2":
            ratio = Total("u", n, log_ratio("u"))
            weight, text = weight + beta * ratio, "(A + β Σ log(ref/π))"
        case "k3":
            weight = weight + beta * (log_ratio().apply("exp") - 1.0)
            text = "(A + β (ref/π - 1))"
        case _:
            assert_never(stated.kl)
    formula, text = weight * (z.share() - targets_one_hot(trace, stated)), f"{text} (p - y)"
    if stated.entropy_bonus:
        formula, text = formula + _entropy_error(stated.entropy_bonus, z), text + _ENTROPY_TEXT
    return formula / setting(stated.temperature, "T"), f"({text}) / T"


def _class_error(trace: Trace, stated: ClassLoss) -> tuple[Formula, str]:
    z = class_scores(trace)
    n = z.n_words
    if stated.multi_label:
        y = Constant(stated.labels.double().cpu()[None], ROWS_AND_WORDS, "y")
        return sigmoid(z.score("v")) - y, "1 / (1 + exp(-z)) - y"
    hit = torch.nn.functional.one_hot(stated.labels.cpu().long(), n)
    y = Constant(hit.double()[None], ROWS_AND_WORDS, "y")
    if not stated.label_smoothing:
        return z.share() - y, "p - y"
    share = setting(stated.label_smoothing, "s")
    target = (1.0 - share) * y + share / setting(n, "classes")
    return z.share() - target, "p - ((1 - s) y + s / classes)"


def logits_gradient(trace: Trace) -> Equation:
    """error / n of each logit that counts, else 0. `class_logits` have one row."""
    stated = require_loss(trace)
    n, upstream = setting(compute.n_terms(stated), "n"), Read("loss.grad", (), "dL/dL")
    if isinstance(stated, ClassLoss):
        return Equation(
            formula=upstream * Read("error", (0, "v"), "error") / n,
            axes=("v",),
            title=lambda env: message(
                "equations.gradient-of-the-logit-of-2", class_name=name_class(stated, env["v"])
            ),
            text="error / n",
            source=LOSS_SOURCE,
            judged_by_largest=True,
        )
    n_tokens = len(trace.ids)
    counts, row = torch.zeros(n_tokens), torch.zeros(n_tokens, dtype=torch.long)
    places = stated.places.cpu()
    counts[places], row[places] = 1.0, torch.arange(len(places))
    error_there = Read("error", (Places(row, ("t",)), "v"), "error")
    return Equation(
        formula=Masked(Constant(counts, ("t",), "counts"), upstream * error_there / n),
        axes=ROWS_AND_WORDS,
        title=lambda env: message(
            "equations.gradient-of-the-logit-of",
            word=piece(trace, env["v"]),
            place=describe_place(trace, env["t"]),
        ),
        text="error / n",
        source=LOSS_SOURCE,
        judged_by_largest=True,
    )
