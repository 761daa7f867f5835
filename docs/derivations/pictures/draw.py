"""The pictures of the derivations, drawn from their formulas and results.

    python docs/derivations/pictures/draw.py

Comes in: formulas, and benchmarks/results/depth.json. Goes out: one SVG for each picture, next to
this file; the same bytes each time. It needs nothing but Python, and does not know pellucid.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
DEPTH = FOLDER.parents[2] / "benchmarks" / "results" / "depth.json"
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #5b5d66; }
.paper { fill: #fcfcfa; } .grid { stroke: #e2e2dd; } .axis { stroke: #5b5d66; fill: none; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .thin { stroke-width: 1; }
.dashed { stroke-dasharray: 5 4; } .mark { stroke: none; }
.s1 { stroke: #1766a6; } .s2 { stroke: #b4470b; } .s3 { stroke: #6d5a8c; } .s4 { stroke: #2f7d4f; }
.f1 { fill: #1766a6; } .f2 { fill: #b4470b; } .f3 { fill: #6d5a8c; } .f4 { fill: #2f7d4f; }
.s5 { stroke: #a3a6af; }
@media (prefers-color-scheme: dark) { text { fill: #a3a6af; } .paper { fill: #131417; }
.grid { stroke: #33363d; } .axis { stroke: #a3a6af; } .s1 { stroke: #74b9f0; }
.s2 { stroke: #f3a35f; } .s3 { stroke: #bfa9e6; } .s4 { stroke: #7fd0a0; } .f1 { fill: #74b9f0; }
.f2 { fill: #f3a35f; } .f3 { fill: #bfa9e6; } .f4 { fill: #7fd0a0; } .s5 { stroke: #5b5d66; } }
</style>"""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A rectangle of the picture, and the range of values that it shows."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, point: Point) -> Point:
        """The place of a value in the picture; a value outside is drawn at the rim."""
        x_share = (point[0] - self.x[0]) / (self.x[1] - self.x[0])
        y_share = (point[1] - self.y[0]) / (self.y[1] - self.y[0])
        x_share, y_share = min(max(x_share, 0), 1), min(max(y_share, 0), 1)
        return self.left + x_share * self.width, self.top + (1 - y_share) * self.height

    def line(self, points: Iterable[Point], classes: str) -> str:
        """Points joined by a line."""
        coordinates = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.place, points))
        return f'<polyline class="line {classes}" points="{coordinates}"/>'

    def mark(self, point: Point, classes: str) -> str:
        """A dot."""
        x, y = self.place(point)
        return f'<circle class="mark {classes}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'

    def text(self, point: Point, words: str, classes: str = "", anchor: str = "start") -> str:
        """Words at a point."""
        x, y = self.place(point)
        style = f' class="{classes}"' if classes else ""
        return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

    def axes(
        self, x_ticks: Sequence[float], y_ticks: Sequence[float], name: Callable[[float], str]
    ) -> str:
        """A frame with ticks."""
        bottom, parts = self.top + self.height, []
        for tick in y_ticks:
            _, y = self.place((self.x[0], tick))
            parts.append(f'<path class="grid" d="M{self.left:.1f} {y:.1f}h{self.width:.1f}"/>')
            place = f'x="{self.left - 6:.1f}" y="{y + 4:.1f}"'
            parts.append(f'<text {place} text-anchor="end">{name(tick)}</text>')
        for tick in x_ticks:
            x, _ = self.place((tick, self.y[0]))
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom:.1f}v4"/>')
            parts.append(
                f'<text x="{x:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">{tick:g}</text>'
            )
        parts.append(f'<path class="axis" d="M{self.left:.1f} {bottom:.1f}h{self.width:.1f}"/>')
        return "\n".join(parts)


def picture(width: int, height: int, title: str, description: str, parts: Iterable[str]) -> str:
    """A whole SVG, named and described for those who do not see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(description)}</desc>",
        STYLE,
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def cross_entropy() -> str:
    """-log q and (1 - q)^2."""
    panel = Panel(40, 20, 420, 220, (0, 1), (0, 5))
    shares = [math.exp(-5 + 5 * i / 200) for i in range(201)]
    return picture(480, 290, "Cross-entropy and squared error",
        "Cost against the probability q of the right answer. -log q falls from beyond 5 "
        "near 0 to 0 at 1, through 4.605 at 0.01, 1.609 at 0.2 and 0.105 at 0.9; the squared "
        "error falls from 1 to 0.",
        [
            panel.axes([0, 0.2, 0.4, 0.6, 0.8, 1], [0, 1, 2, 3, 4, 5], lambda tick: f"{tick:g}"),
            panel.line([(q, -math.log(q)) for q in shares], "s1"),
            panel.line([(i / 100, (1 - i / 100) ** 2) for i in range(101)], "s2"),
            *(panel.mark((q, -math.log(q)), "f1") for q in (0.01, 0.2, 0.9)),
            panel.text((0.25, 1.75), "-log q", "f1"),
            panel.text((0.03, 0.45), "(1 - q)²", "f2"),
            '<text x="250" y="280" text-anchor="middle">q, the probability of what came</text>',
        ])  # fmt: skip


def _bowl(level: float) -> list[Point]:
    """Where (a - .6)^2 + 3 (b - 1.6)^2 + (a - .6)(b - 1.6) is `level`."""
    points: list[Point] = []
    for i in range(181):
        turn = 2 * math.pi * i / 180
        cos, sin = math.cos(turn), math.sin(turn)
        reach = math.sqrt(level / (cos * cos + 3 * sin * sin + cos * sin))
        points.append((0.6 + reach * cos, 1.6 + reach * sin))
    return points


def _bowl_at(a: float, b: float) -> float:
    return (a - 0.6) ** 2 + 3 * (b - 1.6) ** 2 + (a - 0.6) * (b - 1.6)


def penalties() -> str:
    """The diamond and the circle, with the loss contours that touch them."""
    parts: list[str] = []
    ring = [2 * math.pi * i / 180 for i in range(181)]
    diamond = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0)]
    circle = [(math.cos(turn), math.sin(turn)) for turn in ring]
    best = min((_bowl_at(math.cos(t), math.sin(t)), t) for t in (i / 5000 for i in range(31416)))[1]
    for left, name, shape, touched in (
        (20, "L1: |w₁| + |w₂| ≤ 1", diamond, (0.0, 1.0)),
        (300, "L2: w₁² + w₂² ≤ 1", circle, (math.cos(best), math.sin(best))),
    ):
        panel = Panel(left, 30, 240, 240, (-1.4, 2.6), (-1.2, 2.8))
        meets = _bowl_at(*touched)
        parts += [
            panel.line([(-1.4, 0), (2.6, 0)], "thin s5"),
            panel.line([(0, -1.2), (0, 2.8)], "thin s5"),
            *(panel.line(_bowl(share * meets), "thin s2") for share in (0.1, 0.4)),
            panel.line(_bowl(meets), "s2"),
            panel.line(shape, "s1"),
            panel.mark((0.6, 1.6), "f2"),
            panel.mark(touched, "f1"),
            f'<text x="{left + 120}" y="18" text-anchor="middle">{name}</text>',
        ]
    return picture(560, 285, "The diamond and the circle",
        "Elliptic loss contours around (0.6, 1.6). The diamond |w1| + |w2| = 1 is touched at its "
        f"corner (0, 1), so w1 is zero. The circle of radius 1 is touched at "
        f"({math.cos(best):.2f}, {math.sin(best):.2f}), where neither weight is zero.",
        parts)  # fmt: skip


def depth() -> str:
    """Gradient norms by layer: three residual rules, at the start and after training."""
    results = json.loads(DEPTH.read_text("utf-8"))
    parts: list[str] = []
    for row, stage in enumerate(("start", "trained")):
        for column, (rule, cells) in enumerate(results["cells"].items()):
            up = [-30, -20, -10, 0, 10] if column == 0 else [-3, -2, -1, 0]
            margin = 1 if column == 0 else 0.5
            reach = (up[0] - margin, up[-1] + margin)
            panel = Panel(48 + 235 * column, 40 + 235 * row, 185, 180, (0, 30), reach)
            parts.append(panel.axes([0, 10, 20, 30], up, lambda t: f"1e{t:g}"))
            words = f"{rule}, {'at the start' if stage == 'start' else 'after training'}"
            parts.append(f'<text x="{panel.left}" y="{panel.top - 10}">{escape(words)}</text>')
            for number, cell in enumerate(cells.values(), start=1):
                for key, style in (("estimate", "thin dashed"), ("measured", "")):
                    points = [(i, math.log10(v)) for i, v in enumerate(cell[stage][key]) if v > 0]
                    parts.append(panel.line(points, f"{style} s{number}".strip()))
    names = list(next(iter(results["cells"].values())))
    for number, name in enumerate(names, start=1):
        x = 60 + 110 * (number - 1)
        parts.append(f'<path class="line s{number}" d="M{x} 508h22"/>')
        parts.append(f'<text x="{x + 28}" y="512">{escape(name)}</text>')
    parts.append('<path class="line thin dashed axis" d="M500 508h22"/>')
    parts.append('<text x="528" y="512">product of Jacobians</text>')
    return picture(740, 525, "Gradient norms through thirty layers",
        "Six panels: no residual, post-norm and pre-norm, at the start and after training. The norm"
        " "
        "of the gradient at each of 31 states on a logarithmic axis, for four initialisations, and "
        "the product-of-Jacobians estimate, dashed. Without a residual the lines fan out over "
        "forty "
        "powers of ten; with one they stay between 1e-3 and 1.",
        parts)  # fmt: skip


def adam_paths(decoupled: bool, steps: int = 400) -> list[Point]:
    """Two weights, one with gradients a hundred times the other's, and nothing else but decay."""
    rate, decay, beta1, beta2 = 0.02, 0.5, 0.9, 0.99
    w, m, v, path = [1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [(1.0, 1.0)]
    for t in range(1, steps + 1):
        for i, size in enumerate((1.0, 0.01)):
            # a loss that pulls to and fro and leads nowhere: only decay moves the weights
            grad = size * (1 if t % 2 else -1) + (0 if decoupled else decay * w[i])
            m[i] = beta1 * m[i] + (1 - beta1) * grad
            v[i] = beta2 * v[i] + (1 - beta2) * grad * grad
            step = m[i] / (1 - beta1**t) / (math.sqrt(v[i] / (1 - beta2**t)) + 1e-8)
            w[i] -= rate * step + (rate * decay * w[i] if decoupled else 0)
        path.append((w[0], w[1]))
    return path


def adamw() -> str:
    """The way to zero of two weights under L2 in Adam, and under decoupled decay."""
    panel = Panel(50, 20, 260, 260, (0, 1.1), (0, 1.1))
    coupled, decoupled = adam_paths(False), adam_paths(True)
    return picture(480, 330, "AdamW against Adam with L2",
        "Two weights from (1, 1). Under AdamW both shrink alike, along the diagonal. Under Adam "
        "with "
        "L2 the weight with small gradients falls to zero first, and the one with large gradients "
        "follows slowly.",
        [
            panel.axes([0, 0.5, 1], [0, 0.5, 1], lambda tick: f"{tick:g}"),
            panel.line(decoupled, "s1"),
            panel.line(coupled, "s2"),
            *(panel.mark(path[i], f) for i in (0, 50, 100, 200, 400)
              for path, f in ((decoupled, "f1"), (coupled, "f2"))),
            '<text class="f1" x="325" y="60">AdamW</text>',
            '<text class="f2" x="325" y="80">Adam with L2</text>',
            '<text x="325" y="100">dots: 0, 50, 100,</text>',
            '<text x="325" y="116">200, 400 steps</text>',
            '<text x="180" y="320" text-anchor="middle">weight with large gradients</text>',
            '<text x="14" y="150" text-anchor="middle" transform="rotate(-90 14 150)">'
            "weight with small gradients</text>",
        ])  # fmt: skip


PICTURES: dict[str, Callable[[], str]] = {
    "cross-entropy.svg": cross_entropy,
    "penalties.svg": penalties,
    "depth.svg": depth,
    "adamw.svg": adamw,
}


def main() -> None:
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
