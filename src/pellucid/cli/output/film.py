"""Films as text: a line for each curve, with its ends in digits."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.cli.output.pictures import WIDTH, Ink, draw_curve, draw_picture, number
from pellucid.display.terminal_text import fitted, visible
from pellucid.explain.chapter_types import AnimatedPicture, Film, Frames, Matrix, Table

#: Steps of a curve; curves and moments that one screen holds.
_LONG, _CURVES, _MOMENTS = 36, 16, 8


def draw_film(picture: AnimatedPicture, ink: Ink, row: int = 0, column: int = 0) -> list[str]:
    """The lines of a film, or of one row of a head's map over time."""
    if isinstance(picture, Film):
        return [*_curves(picture, ink), *_ladder(picture, ink)]
    return _row(picture, ink, row, column)


def moments(count: int) -> list[int]:
    """A few of so many snapshots, the first and the last with them."""
    if count <= _MOMENTS:
        return list(range(count))
    return sorted({round(n * (count - 1) / (_MOMENTS - 1)) for n in range(_MOMENTS)})


def _curves(film: Film, ink: Ink) -> list[str]:
    if film.chosen is None:
        return []
    first = max(0, min(film.chosen - _CURVES // 2, len(film.names) - _CURVES))
    places = range(first, min(first + _CURVES, len(film.names)))
    lines = [f"  p of each token that came, update {film.steps[0]:,} to {film.steps[-1]:,}"]
    for place in places:
        mark = ">" if place == film.chosen else " "
        lines.append(f"  {mark} {_curve(repr(film.names[place]), film.curves[place], ink)}")
    lines.append(f"    {_curve('loss, nats', film.losses, ink)}")
    part = f"; tokens {first + 1} to {first + len(places)} of {len(film.names)}"
    part = part if len(places) < len(film.names) else ""
    lines.append(f"    each line from its least to its most, a mark a snapshot{part}")
    return [*lines, ""]


def _curve(name: str, series: Sequence[float], ink: Ink) -> str:
    marks = draw_curve(series, ink, _LONG)
    ends = f"{number(series[0])} to {number(series[-1])}"
    return f"{fitted(visible(name), 14)} {marks:<{_LONG}} {ends}"


def _ladder(film: Film, ink: Ink) -> list[str]:
    """The last layer at a few moments."""
    rows: list[tuple[str | float | int, ...]] = []
    for snapshot in moments(len(film.steps)):
        word, p, target, norm = film.rungs[snapshot][-1]
        cells = [
            word if p is not None else "–",
            *("–" if x is None else number(x) for x in (p, target)),
        ]
        rows.append((film.steps[snapshot], *cells, norm))
    title = f"{film.title}, after the last layer; --json has every layer and snapshot"
    columns = ("update", "likeliest", "p", "p of what came", "length of the stream")
    return draw_picture(Table(title=title, columns=columns, rows=tuple(rows)), ink)


def _row(picture: Frames, ink: Ink, row: int, column: int) -> list[str]:
    """The keys that one query looks at, at a few moments."""
    query = min(row // picture.patch, len(picture.rows) - 1)
    snapshots = moments(len(picture.steps))
    values = tuple(tuple(shade / 255 for shade in picture.frames[n][query]) for n in snapshots)
    matrix = Matrix(
        title=fitted(
            f"{picture.title.partition(':')[0]}: row {visible(repr(picture.rows[query]))}",
            WIDTH - 2,
        ),
        rows=tuple(f"after {picture.steps[n]:,}" for n in snapshots),
        columns=picture.columns,
        values=values,
        scale="sequential",
        address="",
        pooled=picture.pooled,
    )
    return draw_picture(matrix, ink, 0, min(column // picture.patch, len(picture.columns) - 1))
