"""The tables of a ladder as texts, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.display.numbers import short
from pellucid.lab.scaling import Scaling

CONSTANT_HEAD = ("constant", "value", "95% interval", "determined")
RUN_HEAD = ("size", "tokens", "loss", "law", "off by", "tokens/s")
CHECK_HEAD = ("size", "tokens", "predicted", "95% interval", "measured", "off by")
BEST_HEAD = ("minutes", "best size", "95% interval", "tokens", "loss", "95% interval of the loss")


def constant_rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Each constant with its interval."""
    if scaling.law is None:
        return
    for constant in scaling.law.constants():
        interval = " to ".join(f"{end:.3g}" for end in constant.interval)
        yield constant.name, f"{constant.value:.3g}", interval, "no" if constant.doubt else "yes"


def run_rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Each size and length: the measured loss, and the loss by the law."""
    for rungs in scaling.ladder:
        law = error = "–"
        if scaling.law is not None:
            expected = float(scaling.law.losses([rungs.n_weights], [rungs.n_tokens])[0])
            law = scaling.measure.number(expected)
            error = "–" if rungs.mean is None else f"{expected / rungs.mean - 1:+.1%}"
        yield (
            short(rungs.n_weights),
            short(rungs.n_tokens),
            "–" if rungs.mean is None else scaling.measure.number(rungs.mean),
            law,
            error,
            "–" if rungs.tokens_per_second is None else short(rungs.tokens_per_second),
        )


def check_rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Each prediction of the next size, and the measured loss."""
    for check in scaling.checks:
        assert check.rungs.mean is not None
        yield (
            short(check.rungs.n_weights),
            short(check.rungs.n_tokens),
            scaling.measure.number(check.predicted),
            " to ".join(map(scaling.measure.number, check.interval)),
            scaling.measure.number(check.rungs.mean),
            f"{check.error:+.1%}",
        )


def check_sentence(scaling: Scaling) -> str:
    """How far off the predictions were."""
    if scaling.error is None:
        return "Nothing was predicted."
    n, largest = len(scaling.checks), max(abs(check.error) for check in scaling.checks)
    n_inside = sum(check.is_inside for check in scaling.checks)
    return (
        f"The predictions of the next size were off by {scaling.error:.1%} on average and by "
        f"{largest:.1%} at most; {n_inside} of {n} losses lie within the interval."
    )


def best_rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """The best size for each budget."""
    for best in scaling.best:
        yield (
            f"{best.minutes:g}",
            short(best.n_weights),
            " to ".join(map(short, best.interval)),
            short(best.n_tokens),
            scaling.measure.number(best.loss),
            " to ".join(map(scaling.measure.number, best.loss_interval)),
        )
