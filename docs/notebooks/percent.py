"""The notebooks of this folder, without a library: their sources, and what they show as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def sources() -> list[Path]:
    """The files of cells, in the order of the lessons."""
    return sorted(FOLDER.glob("[0-9]*.py"))


def read_cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    return json.loads(notebook.read_text("utf-8"))["cells"]


def to_percent(cells: list[dict[str, Any]]) -> str:
    """Cells as a source in the percent format."""
    return "\n".join(map(_percent, cells))


def _percent(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"# %%\n{text}\n"
    lines = "\n".join(f"# {line}".rstrip() for line in text.splitlines())
    return f"# %% [markdown]\n{lines}\n"


def to_page(notebook: Path) -> str:
    """A notebook as a page of Markdown: texts, code, and what the code showed."""
    return "\n".join(part for cell in read_cells(notebook) for part in _page_parts(cell))


def _page_parts(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield f"{text}\n"
        return
    yield f"```python\n{text}\n```\n"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            yield f"<div>{''.join(data['text/html'])}</div>\n"
        else:
            text_output = "".join(output.get("text") or data["text/plain"])
            yield f"```text\n{text_output.rstrip()}\n```\n"
