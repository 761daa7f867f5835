"""A result in words, and as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pellucid.course.experiments.conduct import Result
from pellucid.course.experiments.record import Number, Verdict
from pellucid.course.experiments.svg_picture import picture_svg
from pellucid.report.page import document

_VERDICTS = {
    Verdict.CONFIRMED: "confirmed: every part of the rule holds",
    Verdict.CONTRADICTED: "contradicted: the measurement speaks against the claim",
    Verdict.IN_PART: "in part: some of the rule holds, and some of it fails",
    Verdict.NOT_DECIDED: "not decided at this size: these seeds neither support nor refute it",
}


def result_rows(result: Result) -> Iterator[tuple[str, list[str]]]:
    """Each part of a result: its label and its lines."""
    experiment = result.experiment
    yield "claim", [experiment.claim]
    yield "measured", [f"{name}: {_value(number)}" for name, number in result.numbers.items()]
    checks = zip(result.outcomes, experiment.checks, strict=True)
    yield "rule", [f"{outcome}: {check}" for outcome, check in checks]
    yield "verdict", [_VERDICTS[result.verdict]]
    yield "refuted by", [experiment.refuted_by]
    yield "source", [str(experiment.source)]
    yield "look up", [", ".join(experiment.concepts)]
    if result.seeds:
        seeds = f"{len(result.seeds)} seeds; in brackets the 95% interval of the mean"
    else:
        seeds = "computed, not sampled: it has no seeds"
    quick = ", --quick" if result.quick else ""
    yield "how", [f"{seeds}; {result.seconds:.1f} seconds{quick}"]


def result_page(result: Result) -> str:
    """The result as one HTML file that fetches nothing."""
    title = result.experiment.title
    rows = "".join(
        f"<dt><b>{escape(label)}</b></dt><dd>{'<br>'.join(map(escape, texts))}</dd>"
        for label, texts in result_rows(result)
    )
    return document(
        title,
        f"<header><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(result.experiment.description)}</p></header>'
        f"<main><figure>{picture_svg(result.picture)}</figure><dl>{rows}</dl></main>",
    )


def _value(number: Number) -> str:
    interval = number.interval
    if interval is None:
        return f"{number.mean:.4g}"
    return f"{number.mean:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"
