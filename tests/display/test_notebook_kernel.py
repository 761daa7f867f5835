"""What a notebook shows: cells run by a real kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from support.tiny import TINY, write_text

#: Runs a notebook of one cell, and prints the cell's outputs.
CLIENT = """if True:
    import json, sys
    import nbclient, nbformat
    cell = nbformat.v4.new_code_cell(sys.argv[1])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="here").execute()
    print(json.dumps(notebook.cells[0].outputs))
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The outputs of a cell that trained."""
    for package in ("nbclient", "ipykernel"):
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed: pip install nbclient ipykernel")
    folder = tmp_path_factory.mktemp("notebook")
    write_text(folder)
    # a kernel of the Python that runs the tests, whatever kernels this machine has besides
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel = {"argv": words, "display_name": "here", "language": "python"}
    (folder / "kernels" / "here").mkdir(parents=True)
    (folder / "kernels" / "here" / "kernel.json").write_text(json.dumps(kernel))
    settings = [*TINY, "text.held_out=0.2"]
    cell = (
        "import pellucid\n"
        f"run = pellucid.train(['text.txt'], out='run', steps=30, settings={settings!r})"
    )
    process = subprocess.run(
        [sys.executable, "-c", CLIENT, cell],
        cwd=folder,
        env=os.environ | {"JUPYTER_PATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_a_cell_shows_one_panel_with_the_last_state(outputs: list[Any]) -> None:
    (panel,) = (output for output in outputs if output["output_type"] == "display_data")
    html, text = panel["data"]["text/html"], panel["data"]["text/plain"]
    assert html.startswith("<pre")
    assert html.rstrip().endswith("</pre>")
    for words in ("step 30/30", "nats/token", "bits/byte", "finished after step 30"):
        assert words in text
        assert words in re.sub(r"<[^>]*>", "", html)
    assert "\x1b" not in html + text
    assert max(map(len, text.splitlines())) <= 80


def test_what_stays_is_plain_text_and_nothing_went_wrong(outputs: list[Any]) -> None:
    assert {output["output_type"] for output in outputs} == {"display_data", "stream"}
    stream_text = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "run run: 30 steps" in stream_text
    assert "\x1b" not in stream_text
    assert "\r" not in stream_text
