"""A comparison for people: a row for each variant, a sentence for each pair."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.printable import plural

if TYPE_CHECKING:
    from pellucid.lab import Comparison, PairResult, VariantResult
    from pellucid.lab.results import Result

_WIDTH = 96
#: More keys, or longer values, are in the JSON and the report.
_MOST_KEYS, _MOST_LETTERS = 12, 30


def comparison_lines(comparison: Comparison, files: Sequence[Path]) -> Iterator[str]:
    """The variants, the values of each seed, the pairs, the noise, what differs, and the files.

    Args:
        comparison: the comparison.
        files: what was written.
    """
    measure = comparison.measure
    n = len(comparison.seeds)
    seeds = f"{n} {plural(n, 'seed')}"
    yield ""
    yield f"{measure.title} after training, {seeds} for each variant. {measure.reads}".rstrip()
    yield ""
    yield from table_lines(
        ("variant", "mean", "95% interval", "n", "parameters", "FLOPs", "tokens/s", "memory"),
        [_variant_row(comparison, variant) for variant in comparison.variants],
    )
    yield ""
    yield from table_lines(
        ("seed", *(variant.name for variant in comparison.variants)),
        [
            (
                str(seed),
                *(_number(comparison, variant.values[i]) for variant in comparison.variants),
            )
            for i, seed in enumerate(comparison.seeds)
        ],
    )
    for pair in comparison.pairs:
        yield ""
        yield from _pair_lines(pair)
    yield from _noise_lines(comparison)
    yield from _differing_lines(comparison)
    for variant in comparison.variants:
        if variant.tuned:
            values = ", ".join(f"{key} = {value:.4g}" for key, value in variant.tuned)
            yield f"tuned {variant.name}: {values}"
    for note in comparison.notes:
        yield from filled(f"note: {note}")
    yield ""
    yield f"corpus {comparison.corpus}: only results on the same corpus compare"
    yield from (str(file) for file in files)


def against_lines(comparison: Comparison, others: Sequence[Result]) -> Iterator[str]:
    """The variants of other results on the same corpus.

    Args:
        comparison: the comparison here.
        others: the results.
    """
    for other in others:
        yield ""
        if other.measure != comparison.measure.name:
            yield from filled(
                f"{other.file} was compared by {other.measure}: add --measure {other.measure}"
            )
            continue
        rows = [
            (name, _number(comparison, mean), _interval(comparison, interval), str(n))
            for name, mean, interval, n in other.rows
        ]
        yield str(other.file)
        yield from table_lines(("variant", "mean", "95% interval", "n"), rows)


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns under their heads; the first is aligned left, the others right.

    Args:
        head: the name of each column.
        rows: the cells.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "  ".join(
            f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def _variant_row(comparison: Comparison, variant: VariantResult) -> tuple[str, ...]:
    from pellucid.display.numbers import short, size

    return (
        variant.name,
        _number(comparison, variant.mean),
        _interval(comparison, variant.interval),
        str(variant.n),
        short(variant.parameters),
        "–" if variant.flops is None else short(variant.flops),
        "–" if variant.tokens_per_second is None else short(variant.tokens_per_second),
        size(variant.memory_bytes),
    )


def _pair_lines(pair: PairResult) -> Iterator[str]:
    first, second = pair.names
    difference = pair.difference
    yield from filled(f"{second} against {first}: {pair.verdict}")
    if difference.interval is None or pair.p is None:
        return
    low, high = difference.interval
    numbers = (
        f"{second} - {first} = {difference.mean:+.4g}, {low:+.4g} to {high:+.4g}, p = {pair.p:.2g}"
    )
    if difference.permutation is not None:
        exact = "exact" if difference.permutation.exact else "sampled"
        numbers += (
            f" (paired t); {exact} permutation p = {difference.permutation.p:.2g}, which cannot be "
            f"below {difference.permutation.least:.2g}"
        )
    yield from filled(numbers, "  ")


def _noise_lines(comparison: Comparison) -> Iterator[str]:
    if comparison.noise is None or comparison.noise_between_runs is None:
        return
    yield ""
    yield from filled(
        f"noise floor: one config varies by {comparison.noise:.2g} between seeds (standard "
        f"deviation); two of its runs differ by up to {comparison.noise_between_runs:.2g} in 19 of "
        "20 cases"
    )


def _differing_lines(comparison: Comparison) -> Iterator[str]:
    keys = list(comparison.differing_keys.items())
    if not keys:
        return
    yield ""
    yield from table_lines(
        ("what differs", *(variant.name for variant in comparison.variants)),
        [(key, *map(_value, values)) for key, values in keys[:_MOST_KEYS]],
    )
    if len(keys) > _MOST_KEYS:
        yield f"and {len(keys) - _MOST_KEYS} more keys"


def _value(value: Any) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def _interval(comparison: Comparison, interval: Sequence[float] | None) -> str:
    return "–" if interval is None else " to ".join(_number(comparison, end) for end in interval)


def _number(comparison: Comparison, value: float | None) -> str:
    return "–" if value is None else comparison.measure.number(value)


def filled(text: str, indent: str = "") -> list[str]:
    """A sentence in lines; all but the first are indented by two more."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
