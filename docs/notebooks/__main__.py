"""Build the notebooks from their sources: `python -m docs.notebooks`, with the extra `docs`.

Each `N-name.py` has cells in the percent format. jupytext turns it into `N-name.ipynb`, and a new
kernel runs the cells in an empty folder. Names after the command choose notebooks; `--check` runs
the cells and writes nothing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.notebooks.percent import sources

#: The kernel of this Python, whatever kernels the machine has besides.
KERNEL = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3",
    "language": "python",
}
#: Of the outputs, the kinds that a page without a kernel shows.
KINDS = ("text/html", "text/plain")


def build(source: Path, folder: Path) -> Any:
    """The notebook of a source, with the outputs of its cells.

    Args:
        source: the file of cells.
        folder: an empty folder, in which the cells run.
    """
    try:
        import jupytext
        from nbclient import NotebookClient
    except ImportError as missing:
        raise SystemExit("notebooks need jupytext and nbclient: pip install '.[docs]'") from missing
    notebook = jupytext.read(source, fmt="py:percent")
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="pellucid-docs",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = list(_lasting(cell.outputs))
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return notebook


def _lasting(outputs: list[Any]) -> Iterator[Any]:
    """Standard output as one text, and results; what goes to standard error is left out."""
    printed = [output for output in outputs if output.get("name") == "stdout"]
    if printed:
        printed[0].text = "".join(output.text for output in printed)
        yield printed[0]
    for output in outputs:
        if output.output_type in ("display_data", "execute_result"):
            output.data = {kind: output.data[kind] for kind in KINDS if kind in output.data}
            yield output


def main(words: list[str]) -> None:
    names = [word for word in words if word != "--check"]
    with tempfile.TemporaryDirectory() as place:
        kernel = Path(place, "kernels", "pellucid-docs")
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps(KERNEL), "utf-8")
        os.environ["JUPYTER_PATH"] = place
        for source in sources():
            if names and source.stem not in names:
                continue
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                notebook = build(source, Path(folder))
            print(f"{source.name}: {time.monotonic() - start:.0f} s", flush=True)
            if "--check" not in words:
                import nbformat

                nbformat.write(notebook, source.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
