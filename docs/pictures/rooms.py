"""Draw the rooms of the house: one row of boxes for each floor of the import contract.

    python docs/pictures/rooms.py

The floors come from `pyproject.toml`; the text is the first sentence of the docstring of a room.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH, GAP, MARGIN, LINE = 1180, 10, 16, 15
STYLE = """
svg { font: 12px system-ui, sans-serif; }
rect { fill: #f4f1ea; stroke: #b9ae98; }
text { fill: #333; } .name { font-weight: 600; font-size: 14px; fill: #1f3a5f; }
@media (prefers-color-scheme: dark) {
  rect { fill: #22262b; stroke: #59626d; } text { fill: #c9ced4; } .name { fill: #9cc4ff; }
}
"""


def floors() -> list[list[str]]:
    """The rooms of each floor, the top one first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    return [layer.split(" | ") for layer in layers]


def purpose(room: str) -> str:
    """The first sentence of a room's docstring."""
    package = ROOT / "src" / "pellucid" / room
    file = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].replace("`", "").split())


def draw() -> str:
    """The whole picture as SVG."""
    boxes: list[str] = []
    y = MARGIN
    for rooms in floors():
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        columns = max(12, int(width / 7.2))
        texts = [textwrap.wrap(purpose(room), columns) for room in rooms]
        height = 30 + LINE * max(map(len, texts))
        for place, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            x = MARGIN + place * (width + GAP)
            boxes.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="6"/>'
            )
            boxes.append(f'<text class="name" x="{x + 8:.1f}" y="{y + 18}">{room}</text>')
            boxes += [
                f'<text x="{x + 8:.1f}" y="{y + 34 + LINE * number}">{escape(line)}</text>'
                for number, line in enumerate(lines)
            ]
        y += height + GAP
    height = y - GAP + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    title = "<title>The rooms of pellucid: each may import those on the floors below it</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *boxes, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
