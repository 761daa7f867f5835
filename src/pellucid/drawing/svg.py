"""A picture as one SVG file: light or dark like the reader's system, without scripts or fonts.

The system's monospaced font is a little narrower than the cells of the grid, so all text fits.
"""

from __future__ import annotations

from html import escape

from pellucid.drawing.picture import Line, Picture, Point, Rectangle, Text

#: A cell of the grid, and the letters in it, in pixels. No monospaced font is wider than .61 em.
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8, 20, 13
#: Rows above the grid for the title, and the margin around everything.
_TITLE_ROWS, _MARGIN = 3, 16
_SUM_RADIUS = 8
_STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --card: #ffffff; --holds: #e6f0f8;
  --ink: #1c1d21; --soft: #5b5d66; --line: #8b8d94; --one: #1766a6; --two: #b4470b;
  --three: #6d5a8c; --four: #2b7a3f; }
@media (prefers-color-scheme: dark) { :root { --paper: #131417; --card: #1d1f24; --holds: #1a2e3d;
  --ink: #e9e9e6; --soft: #a3a6af; --line: #70737c; --one: #74b9f0; --two: #f3a35f;
  --three: #bfa9e6; --four: #82cf94; } }
.paper { fill: var(--paper); }
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--ink); }
.title { font-size: 18px; font-weight: 600; }
.name { font-weight: 600; } .says, .shape { fill: var(--soft); } .count { fill: var(--one); }
rect { stroke: var(--line); rx: 4px; }
.frame { fill: transparent; } .plain { fill: var(--card); }
.holds { fill: var(--holds); stroke: var(--one); }
.line { fill: none; stroke: var(--line); stroke-width: 2; stroke-linejoin: round; }
.head { fill: var(--line); }
.sum { fill: var(--card); stroke: var(--two); stroke-width: 2; }
.line.residual { stroke: var(--two); } .head.residual { fill: var(--two); }
.line.tied { stroke: var(--three); stroke-dasharray: 5 4; } .head.tied { fill: var(--three); }
.line.encoded { stroke: var(--four); } .head.encoded { fill: var(--four); }
.line.positions { stroke: var(--four); } .head.positions { fill: var(--four); }
"""


def as_svg(picture: Picture) -> str:
    """The picture, with a title and a description for screen readers."""
    width = picture.width * CELL_WIDTH + 2 * _MARGIN
    height = (picture.height + _TITLE_ROWS) * CELL_HEIGHT + 2 * _MARGIN
    frames = [rectangle for rectangle in picture.rectangles if rectangle.kind == "frame"]
    parts = [rectangle for rectangle in picture.rectangles if rectangle.kind in ("holds", "plain")]
    top = _MARGIN + CELL_HEIGHT
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<title id="title">{_escape(picture.title)}</title>',
        f'<desc id="desc">{_escape(_describe(picture))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<path class="paper" d="M0 0H{width}V{height}H0Z"/>',
        f'<text class="title" x="{_MARGIN}" y="{top}">{_escape(picture.title)}</text>',
        f'<text class="says" x="{_MARGIN}" y="{top + 22}">{_escape(picture.sentence)}</text>',
        *map(_rectangle, frames),
        *(piece for line in picture.lines for piece in _line(line, picture)),
        *map(_rectangle, parts),
        *(piece for point in picture.sums for piece in _sum(point)),
        *map(_text, picture.texts),
    ]
    return "\n".join([*elements, "</svg>", ""])


def _describe(picture: Picture) -> str:
    """The picture in words: the model, and its parts from top to bottom."""
    descriptions = [
        rectangle.description for rectangle in picture.rectangles if rectangle.description
    ]
    return f"{picture.sentence}. From input to output: {'. '.join(descriptions)}."


def _middle(point: Point) -> tuple[float, float]:
    x, y = point
    left_edge, top = _MARGIN + x * CELL_WIDTH, _MARGIN + (y + _TITLE_ROWS) * CELL_HEIGHT
    return left_edge + CELL_WIDTH / 2, top + CELL_HEIGHT / 2


def _rectangle(rectangle: Rectangle) -> str:
    x, y = _middle((rectangle.x, rectangle.y))
    width, height = (rectangle.width - 1) * CELL_WIDTH, (rectangle.height - 1) * CELL_HEIGHT
    return (
        f'<g><title>{_escape(rectangle.description)}</title><rect class="{rectangle.kind}" '
        f'x="{x:g}" y="{y:g}" width="{width}" height="{height}"/></g>'
    )


def _line(line: Line, picture: Picture) -> list[str]:
    places = [_middle(point) for point in line.points]
    for end, neighbour in ((-1, -2), (0, 1)):
        gap = _gap(line.points[end], picture)
        places[end] = _towards(places[end], places[neighbour], gap)
    start, *points = (f"{x:g} {y:g}" for x, y in places)
    elements = [f'<path class="line {line.kind}" d="M{start}L{" ".join(points)}"/>']
    if line.head:
        (x, y), (from_x, from_y) = places[-1], _towards(places[-1], places[-2], 8)
        half_width = (0, 4) if from_y == y else (4, 0)
        corners = f"M{x:g} {y:g}L{from_x + half_width[0]:g} {from_y + half_width[1]:g}"
        corners += f"L{from_x - half_width[0]:g} {from_y - half_width[1]:g}Z"
        elements.append(f'<path class="head {line.kind}" d="{corners}"/>')
    return elements


def _gap(point: Point, picture: Picture) -> float:
    """How far a line ends before a point, so that it does not touch the element there."""
    if point in picture.sums:
        return _SUM_RADIUS
    x, y = point
    words = (rectangle for rectangle in picture.rectangles if rectangle.kind == "words")
    return (
        CELL_HEIGHT / 2
        if any(rectangle.y == y and rectangle.x < x < rectangle.right for rectangle in words)
        else 0
    )


def _towards(
    point: tuple[float, float], target: tuple[float, float], distance: float
) -> tuple[float, float]:
    """`point`, moved towards another that is level with it or straight above or below it."""
    (x, y), (to_x, to_y) = point, target
    return x + distance * ((to_x > x) - (to_x < x)), y + distance * ((to_y > y) - (to_y < y))


def _sum(point: Point) -> tuple[str, str]:
    x, y = _middle(point)
    return (
        f'<circle class="sum" cx="{x:g}" cy="{y:g}" r="{_SUM_RADIUS}"/>',
        f'<path class="line residual" d="M{x - 4:g} {y:g}h8M{x:g} {y - 4:g}v8"/>',
    )


def _text(text: Text) -> str:
    bare = text.text.strip()
    indent = len(text.text) - len(text.text.lstrip())
    x, y = _middle((text.x + indent, text.y))
    left_edge = x - CELL_WIDTH / 2
    element = f'<text class="{text.kind}" x="{left_edge:g}" y="{y + 4.5:g}">{_escape(bare)}</text>'
    if not text.covers_line:
        return element
    room = len(bare) * CELL_WIDTH + 8
    return f'<path class="paper" d="M{left_edge - 4:g} {y - 8:g}h{room}v16h-{room}z"/>{element}'


def _escape(text: str) -> str:
    """Text as XML; characters that XML cannot hold become question marks."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))
