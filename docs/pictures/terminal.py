"""Draw what a command printed: lines of a terminal, with its colours, as SVG."""

from __future__ import annotations

import re
import textwrap
from html import escape

#: Of one character and one line, in units of the picture; 13 px of a monospaced face.
CHARACTER, LINE, MARGIN, BAR = 7.8, 17, 14, 26
#: Longer lines are wrapped.
WIDEST = 92
STYLE = """
svg { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.screen { fill: #15181c; } .dot { fill: #59626d; } text { fill: #d5dae0; white-space: pre; }
.b { font-weight: 700; } .d { fill: #9aa4af; }
.c31, .c91 { fill: #ff8a80; } .c32, .c92 { fill: #8bd17c; } .c33, .c93 { fill: #ffd166; }
.c34, .c94 { fill: #79b0ff; } .c35, .c95 { fill: #d5a6ff; } .c36, .c96 { fill: #7fd6d6; }
"""
#: A colour's code, `ESC [ 1 ; 34 m`.
CODE = re.compile(r"\x1b\[([0-9;]*)m")


def draw(command: str, output: str) -> str:
    """A window with a command and what it printed.

    Args:
        command: as it is typed, without the prompt.
        output: lines with the colour codes of a terminal.
    """
    printed = output.rstrip("\n").split("\n")
    lines = [f"\x1b[1m$ {command}\x1b[0m"]
    for line in printed:
        lines += (
            textwrap.wrap(line, WIDEST) if len(line) > WIDEST and "\x1b" not in line else [line]
        )
    columns = max(len(CODE.sub("", line)) for line in lines)
    width = round(columns * CHARACTER + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    dots = "".join(
        f'<circle class="dot" cx="{MARGIN + 4 + 14 * place}" cy="13" r="4"/>' for place in range(3)
    )
    texts = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + LINE * (place + 1) - 4}">{_spans(line)}</text>'
        for place, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="what {escape(command)} prints">'
        f'<style>{STYLE}</style><rect class="screen" width="{width}" height="{height}" rx="8"/>'
        f"{dots}\n{texts}</svg>\n"
    )


def _spans(line: str) -> str:
    """A line as spans, one for each stretch of a colour, each at its own column."""
    spans: list[str] = []
    classes: set[str] = set()
    column = 0
    for place, part in enumerate(CODE.split(line)):
        if place % 2:
            classes = _classes(part, classes)
        elif part:
            kind = f' class="{" ".join(sorted(classes))}"' if classes else ""
            x = MARGIN + column * CHARACTER
            length = len(part) * CHARACTER
            spans.append(
                f'<tspan x="{x:.1f}" textLength="{length:.1f}"{kind}>{escape(part)}</tspan>'
            )
            column += len(part)
    return "".join(spans)


def _classes(codes: str, before: set[str]) -> set[str]:
    """The classes after a code: 0 ends all, 1 is bold, 2 is dim, 30 to 37 and 90 to 97 colours."""
    classes = set(before)
    for code in codes.split(";"):
        if code in ("", "0"):
            classes = set()
        elif code in ("1", "2"):
            classes.add({"1": "b", "2": "d"}[code])
        else:
            classes = {kind for kind in classes if not kind.startswith("c")} | {f"c{code}"}
    return classes
