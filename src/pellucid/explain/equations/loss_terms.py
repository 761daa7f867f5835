"""The terms of losses: surprisals, divergences, entropies, the margin of a preference."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Env, Equation, Source
from pellucid.explain.equations.vocabulary import (
    ROWS_AND_WORDS,
    TwoPredictions,
    log_share,
    scores_at_places,
    target_places,
    teacher_scores,
    temperature_of,
)
from pellucid.explain.formulas.nodes import (
    Formula,
    Read,
    Total,
    setting,
)
from pellucid.explain.losses import compute
from pellucid.explain.losses.names import describe_place, piece
from pellucid.explain.losses.types import (
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
)
from pellucid.explain.outputs import token_rows
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_LOG_P_SOURCE: Source = (compute.log_ps, "torch.log_softmax(scaled")


#: The addresses of the other answer of a preference begin with it.
OTHER = "other."


def surprisal(trace: Trace, site: Site) -> Equation:
    """-log of the probability of the target, in nats."""
    loss = token_rows(trace)
    places: list[int] = to_list(loss.places)
    targets: list[int] = to_list(loss.targets)
    share = scores_at_places(trace, loss).share(target_places(trace, loss))
    return Equation(
        formula=-share.apply("log"),
        axes=("t",),
        title=lambda env: message(
            "equations.surprisal-of",
            word=piece(trace, targets[env["t"]]),
            place=describe_place(trace, places[env["t"]]),
        ),
        text="-log p",
        source=_LOG_P_SOURCE,
    )


def log_p(trace: Trace, site: Site) -> Equation:
    """log π of each token of an answer, at the temperature at which it was sampled."""
    loss = token_rows(trace)
    assert isinstance(loss, PolicyLoss)
    share = scores_at_places(trace, loss, loss.temperature).share(target_places(trace, loss))
    return _by_row(
        trace,
        share.apply("log"),
        message("equations.log-of-the-token"),
        "log p_T",
        _LOG_P_SOURCE,
    )


def log_z(trace: Trace, site: Site) -> Equation:
    """log Σ exp(z), of the logits over the temperature."""
    loss = token_rows(trace)
    return _by_row(
        trace,
        scores_at_places(trace, loss, temperature_of(loss)).log_sum(),
        "log Z",
        "max + log Σ exp(z - max)",
        (compute.log_z, "logsumexp(-1)"),
    )


def entropy(trace: Trace, site: Site) -> Equation:
    """H = log Z - Σ p z."""
    loss = token_rows(trace)
    z = scores_at_places(trace, loss, temperature_of(loss))
    mean = z.over_words(lambda word: log_share(z, word).apply("exp") * z.score(word))
    return _by_row(
        trace,
        Read("log_z", ("t",), "log Z") - mean,
        message("equations.entropy-of-the-prediction"),
        "log Z - Σ p z, p = exp(z - log Z)",
        (compute.entropies, "entropy_of_logits("),
    )


def tempered_log_ps(trace: Trace, site: Site) -> Equation:
    """log p of every word at the temperature, of the student or of its teacher."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    is_student = site.part == "student_log_ps"
    z = scores_at_places(trace, loss, loss.temperature) if is_student else teacher_scores(loss)
    name = _title(trace, f"{site.part.partition('_')[0]}'s log p at T = {loss.temperature:g}")
    return Equation(
        formula=z.score("v") - z.log_sum(),
        axes=ROWS_AND_WORDS,
        title=lambda env: message("equations.of-2", name=name(env), word=piece(trace, env["v"])),
        text="z / T - log Σ exp(z / T)",
        source=(compute.tempered_log_ps, "return torch.log_softmax("),
    )


def divergence(trace: Trace, site: Site) -> Equation:
    """D(teacher, student), both at the temperature."""
    loss = token_rows(trace)
    assert isinstance(loss, DistillationLoss)
    pair = TwoPredictions(trace.model.head_weight.shape[0])
    match loss.divergence:
        case "forward":
            formula = pair.total(lambda w: pair.q(w) * (pair.log_q(w) - pair.log_p(w)))
            name, text, function = "KL(teacher || student)", "Σ q (log q - log p)", "forward_kl"
        case "reverse":
            formula = pair.total(lambda w: pair.p(w) * (pair.log_p(w) - pair.log_q(w)))
            name, text, function = "KL(student || teacher)", "Σ p (log p - log q)", "reverse_kl"
        case "jensen_shannon":
            first = pair.total(lambda w: pair.q(w) * (pair.log_q(w) - pair.log_middle(w)))
            formula = 0.5 * (pair.p_over_middle() + first)
            name, function = "JS(teacher, student)", "jensen_shannon_of_logits"
            text = "(Σ p log(p/m) + Σ q log(q/m)) / 2, m = (p + q) / 2"
        case _:
            assert_never(loss.divergence)
    name += message("equations.at-temperature", temperature=loss.temperature)
    return _by_row(trace, formula, name, text, (compute.divergences, f"return {function}("))


def margin(trace: Trace, site: Site) -> Equation:
    """z = beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)]."""
    loss = token_rows(trace)
    assert isinstance(loss, PreferenceLoss)
    companion = trace.companion
    assert companion is not None
    gain = _gain(len(loss.places), "")
    difference = gain - _gain(len(token_rows(companion).places), OTHER)
    return Equation(
        formula=setting(loss.beta, "β") * (difference if loss.is_chosen else -difference),
        axes=(),
        title=message("equations.the-margin-of-the-chosen"),
        text="z = β ((log π_c - log ref_c) - (log π_r - log ref_r))",
        source=(compute.preference_margin, "dpo_margin(*four_log_ps"),
    )


def _gain(n: int, prefix: str) -> Formula:
    """log π - log ref of an answer."""
    name = "of the other answer" if prefix else ""
    policy = Total("t", n, Read(f"{prefix}surprisal", ("t",), f"-log π {name}".strip()))
    reference = Read(f"{prefix}reference_log_ps", ("t",), f"log ref {name}".strip())
    return -policy - Total("t", n, reference)


def _title(trace: Trace, name: str) -> Callable[[Env], str]:
    loss = token_rows(trace)
    return lambda env: message(
        "equations.at-place", name=name, place=describe_place(trace, int(loss.places[env["t"]]))
    )


def _by_row(trace: Trace, formula: Formula, name: str, text: str, source: Source) -> Equation:
    return Equation(
        formula=formula,
        axes=("t",),
        title=_title(trace, name),
        text=text,
        source=source,
    )
