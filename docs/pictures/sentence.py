"""Draw a sentence on its way through a model: tokens, attention, block by block, the next word.

The numbers come from a real run: `front.py` measures them. A line from a token to a later one is as
thick as the attention that the later one pays to it, the mean of the layer's heads. Lights move
along the strongest lines, but not for readers who want less motion.
"""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, MARGIN, LEFT, FLOOR = 880, 24, 118, 92
#: Attention below this share is not drawn, and at this one it carries a light.
FAINT, BRIGHT = 0.06, 0.2
STYLE = """
svg { font: 13px system-ui, sans-serif; }
.paper { fill: #fdfcf9; } text { fill: #333; } .small { font-size: 11px; fill: #6b6458; }
.token { fill: #e9f1fb; stroke: #6f95c4; } .block { fill: #f4f1ea; stroke: #b9ae98; }
.stream { stroke: #b9ae98; } .look { stroke: #1f6fd0; fill: none; } .bar { fill: #1f6fd0; }
.light { fill: #e8a200; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #15181c; } text { fill: #d5dae0; } .small { fill: #9aa4af; }
  .token { fill: #1d2b3d; stroke: #5b86b8; } .block { fill: #22262b; stroke: #59626d; }
  .stream { stroke: #59626d; } .look { stroke: #79b0ff; } .bar { fill: #79b0ff; }
  .light { fill: #ffd166; }
}
@media (prefers-reduced-motion: reduce) { .light { display: none; } }
"""


def draw(measured: dict[str, Any]) -> str:
    """The picture as SVG.

    Args:
        measured: `tokens`, `attention` (layers of rows of shares), and `next`, pairs of a token and
            its probability.
    """
    tokens, layers = measured["tokens"], measured["attention"]
    height = 2 * MARGIN + 40 + FLOOR * len(layers) + 150
    bottom = height - MARGIN - 30
    step = (WIDTH - LEFT - MARGIN) / len(tokens)
    columns = [LEFT + step * (place + 0.5) for place in range(len(tokens))]
    floors = [bottom - 30 - FLOOR * number for number in range(len(layers) + 1)]
    top = floors[-1] - 6
    parts = [_label(bottom, "tokens")]
    for place, (x, token) in enumerate(zip(columns, tokens, strict=True)):
        parts += [
            f'<path class="stream" d="M{x:.1f} {bottom - 15} V{top:.1f}"/>',
            _box(x, bottom, step - 8, _visible(token), "token"),
            f'<text class="small" x="{x:.1f}" y="{bottom + 30}" '
            f'text-anchor="middle">{place}</text>',
        ]
    for number, layer in enumerate(layers):
        low, high = floors[number], floors[number + 1]
        parts.append(
            _label((low + high) / 2 - 8, f"layer {number}", "attention to", "earlier tokens")
        )
        lit = number / len(layers)
        parts += [
            _look((columns[key], low), (columns[query], high + 16), share, lit, len(layers))
            for query, row in enumerate(layer)
            for key, share in enumerate(row)
            if key != query and share >= FAINT
        ]
        parts += [_box(x, high + 8, step - 26, "", "block") for x in columns]
    parts += _next(measured["next"], columns[-1], top)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(_words(measured))}"><style>{STYLE}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>' + "\n".join(parts)
    ) + "</svg>\n"


def _words(measured: dict[str, Any]) -> str:
    """What the picture shows, for who cannot see it."""
    token, probability = measured["next"][0]
    sentence = "".join(measured["tokens"])
    return (
        f"The sentence '{sentence}' goes through {len(measured['attention'])} layers, "
        f"and the likeliest next token is '{token}' with {probability:.1%}"
    )


def _visible(token: str) -> str:
    """A token as a reader sees it; the one that begins a text has no letters."""
    return token.strip() or ("new line" if "\n" in token else "space" if token else "start")


def _label(y: float, title: str, *lines: str) -> str:
    return f'<text x="{MARGIN}" y="{y + 4:.1f}">{title}</text>' + "".join(
        f'<text class="small" x="{MARGIN}" y="{y + 19 + 13 * place:.1f}">{line}</text>'
        for place, line in enumerate(lines)
    )


def _box(x: float, y: float, width: float, text: str, kind: str) -> str:
    height = 30 if text else 12
    box = (
        f'<rect class="{kind}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height}" rx="5"/>'
    )
    if text:
        box += f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{escape(text)}</text>'
    return box


def _look(
    start: tuple[float, float],
    end: tuple[float, float],
    share: float,
    lit: float,
    n_layers: int,
) -> str:
    """A line from a key below to its query above, with a light that goes along it in its turn."""
    (x, y), (to_x, to_y) = start, end
    middle = (y + to_y) / 2
    path = f"M{x:.1f} {y:.1f} C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    line = (
        f'<path class="look" stroke-width="{0.5 + 5 * share:.2f}" '
        f'opacity="{min(1.0, 0.15 + 1.7 * share):.2f}" d="{path}"/>'
    )
    if share < BRIGHT:
        return line
    unlit = lit + 0.9 / n_layers
    return (
        f'{line}<circle class="light" r="{2 + 4 * share:.2f}">'
        f'<animateMotion dur="{2 * n_layers}s" repeatCount="indefinite" path="{path}" '
        f'keyPoints="0;0;1;1" keyTimes="0;{lit:.3f};{unlit:.3f};1" calcMode="linear"/></circle>'
    )


def _next(likeliest: list[list[Any]], x: float, top: float) -> list[str]:
    """The likeliest next tokens as bars, above the last token's way."""
    left, longest = x - 190, 120
    scale = longest / max(probability for _, probability in likeliest)
    parts = [
        f'<text x="{MARGIN}" y="{top - 60:.1f}">the next token</text>',
        f'<text class="small" x="{MARGIN}" y="{top - 45:.1f}">from the last token\'s vector</text>',
        f'<path class="stream" d="M{x:.1f} {top:.1f} V{top - 14:.1f}"/>',
    ]
    for place, (token, probability) in enumerate(likeliest):
        y = top - 80 + 18 * place
        length = scale * probability
        parts += [
            f'<text x="{left:.1f}" y="{y:.1f}" text-anchor="end">{escape(_visible(token))}</text>',
            f'<rect class="bar" x="{left + 8:.1f}" y="{y - 10:.1f}" height="11" '
            f'width="{length:.1f}" rx="2"/>',
            f'<text class="small" x="{left + 14 + length:.1f}" y="{y:.1f}">'
            f"{probability:.1%}</text>",
        ]
    return parts
