"""Pages that run: the output of their Python blocks follows them, and is printed anew here.

    PYTHONPATH=src:tests python -m support.pages                   rewrites every derivation
    PYTHONPATH=src:tests python -m support.pages softmax.md        or those that are named

Comes in: a Markdown page. Goes out: the same page with each ```output block as its code prints it
now. All blocks of a page share one namespace. It does not know what the pages are about.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDER = Path(__file__).parents[2] / "docs" / "derivations"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```output\n.*?^```\n)?", re.M | re.S)


def printed_anew(text: str, name: str) -> str:
    """The page with what its blocks print now; settings of printing and drawing stay inside."""
    return _run(text, name, {"__name__": name})


@cache
def namespace_of(name: str) -> dict[str, Any]:
    """What the code of a page has defined when it is through."""
    namespace: dict[str, Any] = {"__name__": name}
    _run((FOLDER / name).read_text("utf-8"), name, namespace)
    return namespace


def _run(text: str, name: str, namespace: dict[str, Any]) -> str:

    def anew(block: re.Match[str]) -> str:
        # counted so that a traceback names the line of the page
        before = text[: block.start(1)].count("\n")
        code = compile("\n" * before + block[1], name, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        output_block = f"\n```output\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{block[1]}```\n{output_block}"

    with np.printoptions(), np.errstate(), torch.random.fork_rng(devices=[]):
        return BLOCK.sub(anew, text)


def main() -> None:
    names = sys.argv[1:] or sorted(page.name for page in FOLDER.glob("*.md"))
    for name in names:
        page = FOLDER / name
        page.write_text(printed_anew(page.read_text("utf-8"), name), encoding="utf-8")
        print(f"{name}: {len(re.findall('^```python', page.read_text('utf-8'), re.M))} blocks")


if __name__ == "__main__":
    main()
