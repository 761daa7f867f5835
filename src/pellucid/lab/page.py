"""A comparison as one HTML file: verdicts, curves with a band over seeds, vital signs, troubles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from pellucid.disk import write_output
from pellucid.display import visible
from pellucid.display.numbers import short, size
from pellucid.lab.comparison import Comparison, PairResult, VariantResult
from pellucid.lab.forest import forest
from pellucid.lab.outcome import Outcome
from pellucid.report.chart import Chart, svg
from pellucid.report.page import document
from pellucid.report.sections import column, facts_table, figure, table
from pellucid.report.story import MOST_POINTS, Series
from pellucid.version import __version__


def write_page(comparison: Comparison) -> Path:
    """Write `comparison.html` into the folder of a comparison; returns its path.

    Args:
        comparison: the comparison.

    Raises:
        PellucidError: there is another file of this name, which pellucid did not write.
    """
    file = comparison.out / "comparison.html"
    write_output(file, page(comparison))
    return file


def page(comparison: Comparison) -> str:
    """The whole page, which fetches nothing and runs no script."""
    names = ", ".join(visible(variant.name) for variant in comparison.variants)
    n = len(comparison.seeds)
    sections = [
        ("verdicts", "Verdicts", _verdicts(comparison)),
        ("curves", "Curves", _curves(comparison)),
        ("runs", "Every run", _runs(comparison)),
        ("differs", "What differs", _differs(comparison)),
        ("vitals", "Vital signs", _vitals(comparison.variants)),
        ("troubles", "Where a run went wrong", _troubles(comparison)),
    ]
    introduction = (
        f"{comparison.measure.title} after training, {n} seed{'s' * (n > 1)}. "
        f"{comparison.measure.reads}"
    )
    return sectioned_page(
        f"{names}: a comparison of pellucid", names, introduction, sections, comparison.out
    )


def sectioned_page(
    title: str,
    heading: str,
    introduction: str,
    sections: Sequence[tuple[str, str, str]],
    runs: Path,
) -> str:
    """A page of sections with a list of links to them.

    Args:
        title: of the page.
        heading: the text above all sections.
        introduction: the paragraph below it.
        sections: of each its key, its title and its HTML.
        runs: the folder that the numbers come from.
    """
    navigation = "".join(f'<li><a href="#{key}">{name}</a></li>' for key, name, _ in sections)
    body = "".join(
        f'<section id="{key}" aria-labelledby="{key}-head"><h2 id="{key}-head">{name}</h2>{html}'
        "</section>"
        for key, name, html in sections
    )
    html = f"""
<header>
<h1>{escape(heading)}</h1>
<p class="soft">{escape(introduction)}</p>
<nav aria-label="sections"><ul>{navigation}</ul></nav>
</header>
<main>{body}</main>
<footer>Made by pellucid {__version__} from the runs in {escape(str(runs))}. This file is
whole: it fetches nothing and runs no script.</footer>
"""
    return document(title, html)


def summary(comparison: Comparison) -> str:
    """The verdicts and the variants, as a notebook shows a comparison."""
    return f"{_verdict_list(comparison)}{_variant_table(comparison)}"


def _verdict_list(comparison: Comparison) -> str:
    pairs = "".join(
        f"<li><b>{escape(pair.names[1])} against {escape(pair.names[0])}:</b> "
        f"{escape(pair.verdict)}</li>"
        for pair in comparison.pairs
    )
    return f"<ul>{pairs}</ul>"


def _verdicts(comparison: Comparison) -> str:
    noise = ""
    if comparison.noise is not None and comparison.noise_between_runs is not None:
        noise = (
            f"<p>Noise floor: one config varies by {comparison.noise:.2g} between seeds (standard "
            f"deviation); two of its runs differ by up to {comparison.noise_between_runs:.2g} in "
            "19 of 20 cases.</p>"
        )
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in comparison.notes)
    return (
        f"{_verdict_list(comparison)}{noise}{notes}{forest(comparison)}"
        f"{_variant_table(comparison)}{_pair_table(comparison.pairs)}"
    )


def _variant_table(comparison: Comparison) -> str:
    head = column("variant") + number_columns(
        "mean", "low", "high", "n", "parameters", "FLOPs of a run", "tokens/s", "memory, expected"
    )
    rows = (
        (
            variant.name,
            _format_number(variant.mean),
            *map(_format_number, variant.interval or (None, None)),
            str(variant.n),
            f"{variant.parameters:,}",
            "–" if variant.flops is None else short(variant.flops),
            "–" if variant.tokens_per_second is None else short(variant.tokens_per_second),
            size(variant.memory_bytes),
        )
        for variant in comparison.variants
    )
    return table("each variant, with the 95% interval of its mean", head, table_rows(rows))


def _pair_table(pairs: Sequence[PairResult]) -> str:
    if not pairs:
        return ""
    head = column("second - first") + number_columns(
        "difference", "low", "high", "p (paired t, Holm)", "p (permutation)", "its least", "seeds"
    )
    rows = (
        (
            f"{pair.names[1]} - {pair.names[0]}",
            _format_number(pair.difference.mean),
            *map(_format_number, pair.difference.interval or (None, None)),
            _format_number(pair.p),
            _format_number(pair.difference.permutation and pair.difference.permutation.p),
            _format_number(pair.difference.permutation and pair.difference.permutation.least),
            str(pair.difference.n),
        )
        for pair in pairs
    )
    return table("each pair, with the 95% interval of its difference", head, table_rows(rows))


def _curves(comparison: Comparison) -> str:
    measure = comparison.measure
    charts = [
        _chart(comparison, "held-out", f"Held-out {measure.title}", measure.name),
        _chart(comparison, "training", "Training loss", "training"),
    ]
    return f'<div class="charts">{"".join(figure(chart, svg(chart)) for chart in charts)}</div>'


def _chart(comparison: Comparison, key: str, title: str, curve: str) -> Chart:
    return Chart(
        key=f"{key}-curves",
        title=title,
        caption="The mean over seeds; the band goes from the lowest to the highest run.",
        curves=tuple(_mean_curve(variant, curve) for variant in comparison.variants),
        last_step=max(run.step for variant in comparison.variants for run in variant.outcomes),
    )


def _mean_curve(variant: VariantResult, name: str) -> Series:
    """The mean of a curve over the seeds, at the steps that all of its runs have."""
    tables = [dict(run.curves.get(name, ())) for run in variant.outcomes]
    steps = sorted(set[int].intersection(*[set(table) for table in tables]) if tables else [])
    values = {
        step: numbers
        for step in steps[:: math.ceil(len(steps) / MOST_POINTS) or 1]
        if all(map(math.isfinite, numbers := [table[step] for table in tables]))
    }
    return Series(
        name=variant.name,
        unit="",
        points=tuple((step, math.fsum(row) / len(row)) for step, row in values.items()),
        band=tuple((step, min(row), max(row)) for step, row in values.items()),
    )


def _runs(comparison: Comparison) -> str:
    head = column("run") + number_columns("seed", comparison.measure.label, "updates", "seconds")
    rows = (
        (
            run.folder.name,
            str(seed),
            run.state if value is None else comparison.measure.number(value),
            f"{run.step:,}",
            "–" if run.seconds is None else f"{run.seconds:.0f}",
        )
        for variant in comparison.variants
        for seed, value, run in zip(comparison.seeds, variant.values, variant.outcomes, strict=True)
    )
    return table("each run is a folder of its own", head, table_rows(rows))


def _differs(comparison: Comparison) -> str:
    if not comparison.differing_keys:
        return "<p>The configs are equal.</p>"
    head = column("key") + "".join(column(variant.name) for variant in comparison.variants)
    rows = (
        (key, *("–" if value is None else str(value) for value in values))
        for key, values in comparison.differing_keys.items()
    )
    tuned = "".join(
        facts_table(
            f"tuned: {variant.name}", [(key, f"{value:.6g}") for key, value in variant.tuned]
        )
        for variant in comparison.variants
        if variant.tuned
    )
    return table("keys whose value is not the same", head, table_rows(rows, numbers=False)) + tuned


def _vitals(variants: Sequence[VariantResult]) -> str:
    """For each equation the worst word of each run, counted over seeds."""
    names = dict.fromkeys(name for v in variants for run in v.outcomes for name in run.words)
    if not names:
        return "<p>No vital sign was read: the runs are too short.</p>"
    head = column("equation") + "".join(column(variant.name) for variant in variants)
    rows = ((name, *(_counted_words(v.outcomes, name) for v in variants)) for name in names)
    return table("the worst word of each run", head, table_rows(rows, numbers=False))


def _counted_words(outcomes: Iterable[Outcome], name: str) -> str:
    counts = Counter(run.words.get(name, "") or "not measured" for run in outcomes)
    return ", ".join(f"{word} {count}" for word, count in counts.items())


def _troubles(comparison: Comparison) -> str:
    rows = [
        (run.folder.name, f"{step:,}", text)
        for variant in comparison.variants
        for run in variant.outcomes
        for step, text in [
            *((step, f"{sign} became sick") for sign, step in run.troubles.items()),
            *([(run.step, f"stopped: {run.stopped}")] if run.stopped else []),
        ]
    ]
    if not rows:
        return "<p>No run stopped, and no vital sign was sick.</p>"
    head = column("run") + column("update", "number") + column("event")
    hint = "<p>For the likely cause: <code>pellucid diagnose RUN</code></p>"
    return hint + table("in the order of variants and seeds", head, table_rows(rows, numbers=False))


def number_columns(*names: str) -> str:
    """The heads of columns of numbers."""
    return "".join(column(name, "number") for name in names)


def table_rows(rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """The rows of a table; the first cell is the head of its row.

    Args:
        rows: the cells.
        numbers: whether all other cells are numbers.
    """
    kind = ' class="number"' if numbers else ""
    return "".join(
        f'<tr><th scope="row">{escape(visible(first))}</th>'
        + "".join(f"<td{kind}>{escape(visible(cell))}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )


def _format_number(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.5g}"


# a notebook shows a comparison so, and a terminal as text
setattr(Comparison, "_repr_html_", summary)  # noqa: B010
