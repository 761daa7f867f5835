"""The step of an optimiser: from a gradient through its moments to the next weight.

Source:
    Kingma and Ba 2015, "Adam", algorithm 1; Loshchilov and Hutter 2019, "Decoupled Weight Decay
    Regularization", algorithm 2; Jordan et al. 2024, "Muon: An optimizer for hidden layers in
    neural networks"; Parikh and Boyd 2014, "Proximal Algorithms", section 6.5.3.
"""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain import optimiser_step
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Equation, Source
from pellucid.explain.equations.lengths import parameter_axes
from pellucid.explain.formulas.nodes import Formula, Read, Total, setting
from pellucid.explain.optimiser_settings import StepSettings, choose_settings
from pellucid.explain.trace_types import Trace
from pellucid.maths.optimisers import adamw_step, newton_schulz, newton_schulz_coefficients
from pellucid.optim import Muon, Penalty, gate

_NO_FORMULA = "pellucid has no formula for this optimiser"


def _axes(trace: Trace, site: Site) -> tuple[str, ...]:
    return parameter_axes(dict(trace.model.named_parameters())[site.part].ndim)


def _equation(
    trace: Trace,
    site: Site,
    formula: Formula,
    title: str,
    text: str,
    source: Source,
    dtype: str = "",
) -> Equation:
    return Equation(
        formula=formula,
        axes=_axes(trace, site),
        title=message("equations.of-weight", weight=site.part, title=title),
        text=text,
        source=source,
        least=0.0,
        dtype=dtype,
    )


def _number(trace: Trace, site: Site, part: str, name: str) -> Read:
    return Read(f"{site.part}{part}", _axes(trace, site), name)


def _gradient(trace: Trace, site: Site, settings: StepSettings) -> tuple[Formula, str]:
    """The gradient as the optimiser reads it: clipped, and with the decay of the weight added."""
    formula: Formula = _number(trace, site, ".grad", "g")
    text = "g"
    if optimiser_step.divisor(trace, settings) != 1.0 and settings.clip_norm is not None:
        norm, limit = Read("grad_norm", (), "‖g‖"), setting(settings.clip_norm, "clip")
        formula, text = formula / (norm / limit), "(g / clip)"
    if settings.l2:
        weight = _number(trace, site, "", "w")
        formula, text = formula + setting(settings.l2, "l2") * weight, f"({text} + l2 × w)"
    return formula, text


def clipped_gradient(trace: Trace, site: Site) -> Equation | str:
    """The gradient, shortened so that all of them together are no longer than the limit."""
    limit = choose_settings(trace, site.part).clip_norm
    if limit is None:
        return "this run does not clip"
    factor = (Read("grad_norm", (), "‖g‖") / setting(limit, "clip")).clamp_min(1.0)
    return _equation(
        trace,
        site,
        _number(trace, site, ".grad", "g") / factor,
        message("equations.the-gradient-after-clipping"),
        "g / max(1, ‖all g‖ / clip norm)",
        (gate, "divisor = torch.ones_like(norm)"),
    )


def moment(trace: Trace, site: Site) -> Equation | str:
    """m and v of Adam and AdamW, or the momentum of SGD and Muon."""
    settings, part = (
        choose_settings(trace, site.part),
        site.address.rpartition(".")[2],
    )
    g, text = _gradient(trace, site, settings)
    before = _number(trace, site, f".{part}_before", f"{part} before")
    match settings.kind:
        case "AdamW" | "Adam":
            beta = setting(settings.beta1 if part == "m" else settings.beta2, "β")
            term, term_text = (g, text) if part == "m" else (g * g, f"{text}²")
            statistic = message("word.mean") if part == "m" else message("word.mean-square")
            return _equation(
                trace,
                site,
                beta * before + (1.0 - beta) * term,
                message("equations.the-running-of-the-gradient", statistic=statistic),
                f"β × {part} + (1 - β) × {term_text}",
                (adamw_step, f"{part} = beta"),
            )
        case "Muon" | "SGD":
            line = "momentum = self.owners.local(self._buffer(matrix))"
            return _equation(
                trace,
                site,
                setting(settings.beta1, "μ") * before + g,
                message("equations.the-sum-of-all-gradients"),
                f"μ × m + {text}",
                (Muon, line),
            )
        case "other":
            return _NO_FORMULA
        case _:
            assert_never(settings.kind)


def next_weight(trace: Trace, site: Site) -> Equation | str:
    """The weight after the whole step: the optimiser's, then the proximal step of a penalty.

    sign(w) max(|w| - lr l1, 0) / (1 + 2 lr l2), written as max(w - lr l1, 0) + min(w + lr l1, 0)
    over 1 + 2 lr l2.
    """
    settings = choose_settings(trace, site.part)
    if not settings.is_penalised:
        return optimiser_weight(trace, site)
    lr = setting(settings.learning_rate, "lr")
    formula: Formula = _number(trace, site, ".before_penalty", "w")
    text = "w"
    if settings.penalty_l1:
        threshold = lr * setting(settings.penalty_l1, "l1")
        formula = (formula - threshold).clamp_min(0.0) + (formula + threshold).clamp_max(0.0)
        text = "max(w - lr × l1, 0) + min(w + lr × l1, 0)"
    if settings.penalty_l2:
        formula = formula / (1.0 + 2.0 * lr * setting(settings.penalty_l2, "l2"))
        text = f"({text}) / (1 + 2 × lr × l2)"
    source: Source = (Penalty.step, "new_weights = elastic_net_prox(")
    return _equation(
        trace, site, formula, message("equations.after-the-penalty-proximal-step"), text, source
    )


def optimiser_weight(trace: Trace, site: Site) -> Equation | str:
    """The weight after the optimiser's own step."""
    settings = choose_settings(trace, site.part)
    w, lr = _number(trace, site, "", "w"), setting(settings.learning_rate, "lr")
    decay = setting(settings.weight_decay, "decay")
    match settings.kind:
        case "AdamW" | "Adam":
            m, v = _number(trace, site, ".m", "m"), _number(trace, site, ".v", "v")
            t = float(settings.step)
            first = m / (1.0 - setting(settings.beta1, "β₁") ** t)
            second = (v / (1.0 - setting(settings.beta2, "β₂") ** t)).apply("sqrt")
            formula: Formula = w - lr * (first / (second + setting(settings.eps, "eps")))
            text = "w - lr × (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps)"
            if settings.kind == "AdamW":
                formula, text = formula - lr * decay * w, f"{text} - lr × decay × w"
            line = "return w - learning_rate * weight_decay * w"
            return _equation(
                trace, site, formula, message("equations.after-the-step"), text, (adamw_step, line)
            )
        case "SGD":
            step, text = _gradient(trace, site, settings)
            if settings.beta1:
                step, text = _number(trace, site, ".m", "m"), "m"
            line = "states = _as_the_run("
            return _equation(
                trace,
                site,
                w - lr * step,
                message("equations.after-the-step"),
                f"w - lr × {text}",
                (optimiser_step.take_steps, line),
            )
        case "Muon":
            rows, columns = trace[site.part].shape
            tall = setting(max(1.0, rows / columns), "max(1, rows / columns)")
            step = lr * tall.apply("sqrt") * _number(trace, site, ".direction", "d")
            return _equation(
                trace,
                site,
                w * (1.0 - lr * decay) - step,
                message("equations.after-the-step"),
                "w × (1 - lr × decay) - lr × √max(1, rows / columns) × d",
                (Muon, "local(matrix).mul_(shrink).sub_(direction * rate)"),
            )
        case "other":
            return _NO_FORMULA
        case _:
            assert_never(settings.kind)


def look_ahead(trace: Trace, site: Site) -> Equation:
    """g + μ m: what Muon orthogonalises."""
    settings = choose_settings(trace, site.part)
    g, text = _gradient(trace, site, settings)
    formula = g + setting(settings.beta1, "μ") * _number(trace, site, ".m", "m")
    source: Source = (Muon, "return (momentum * mu).add_(grad)")
    return _equation(
        trace, site, formula, message("equations.the-look-ahead"), f"{text} + μ × m", source
    )


def direction(trace: Trace, site: Site) -> Equation:
    """The last matrix of Newton-Schulz."""
    last = optimiser_step.newton_schulz_steps(trace)
    formula = _number(trace, site, f".iterate{last}", "x")
    source: Source = (Muon, "partial(self.orthogonalise, steps")
    return _equation(
        trace,
        site,
        formula,
        message("equations.what-muon-moves-it-along"),
        f"x after {last}",
        source,
    )


def iterate(trace: Trace, site: Site) -> Equation:
    """X_0 = M / (|M| + 1e-7); X <- a X + (b A + c A²) X with A = X Xᵀ."""
    number = optimiser_step.number_of(site.address)
    rows, columns = trace[site.part].shape
    dtype = optimiser_step.orthogonal_name(trace)
    if number == 0:
        m = Read(f"{site.part}.look_ahead", ("p0", "p1"), "m")
        m_of_all = Read(f"{site.part}.look_ahead", ("i", "j"), "m")
        norm = Total("i", rows, Total("j", columns, m_of_all * m_of_all)).apply("sqrt")
        source: Source = (newton_schulz, "x = matrix / (norm + 1e-7)")
        return _equation(
            trace,
            site,
            m / (norm + setting(1e-7)),
            message("equations.m-over-its-length"),
            "m / (√Σ m² + 1e-7)",
            source,
            dtype,
        )
    before, gram_address = f"{site.part}.iterate{number - 1}", f"{site.part}.gram{number - 1}"
    polynomials = optimiser_step.muon_of(trace).polynomials
    coefficients = newton_schulz_coefficients(number - 1, polynomials)
    a, b, c = (setting(value, name) for value, name in zip(coefficients, "abc", strict=True))
    is_tall, short = rows > columns, min(rows, columns)
    short_axis = "p1" if is_tall else "p0"
    square = Total(
        "m", short, Read(gram_address, (short_axis, "m"), "A") * Read(gram_address, ("m", "l"), "A")
    )
    mixing = b * Read(gram_address, (short_axis, "l"), "A") + c * square
    x = Read(before, ("p0", "l") if is_tall else ("l", "p1"), "x")
    formula = a * Read(before, ("p0", "p1"), "x") + Total("l", short, mixing * x)
    return _equation(
        trace,
        site,
        formula,
        message("equations.the-matrix-after-iterations", n=number),
        "a x + Σ (b A + c A²) x",
        (newton_schulz, "x = a * x + (b * gram"),
        dtype,
    )


def gram(trace: Trace, site: Site) -> Equation:
    """A = X Xᵀ, of the shorter side."""
    x = f"{site.part}.iterate{optimiser_step.number_of(site.address)}"
    rows, columns = trace[site.part].shape
    is_tall, long = rows > columns, max(rows, columns)
    first, second = (Read(x, ("l", axis) if is_tall else (axis, "l"), "x") for axis in ("p0", "p1"))
    return _equation(
        trace,
        site,
        Total("l", long, first * second),
        message("equations.the-product-of-the-matrix"),
        "Σ x x",
        (newton_schulz, "gram = x @"),
        optimiser_step.orthogonal_name(trace),
    )
