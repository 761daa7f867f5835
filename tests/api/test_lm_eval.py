"""`lm-eval` scores answers through the API as `pellucid score` does: `pytest -m nightly`.

The task is a file of this test. Nothing is downloaded.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid import runs
from pellucid.runs import Run

pytestmark = pytest.mark.nightly
pytest.importorskip("lm_eval", reason="lm-eval is not installed")

DOCS = [
    {"prompt": "say red", "choices": [" 1 red", " and blue", "."], "label": 0},
    {"prompt": "say white and black", "choices": [" 12", " white and black."], "label": 1},
    {"prompt": "green", "choices": [" x", " green", " 7 and 8"], "label": 1},
]
TASK = """\
task: colours
dataset_path: json
dataset_kwargs:
  data_files: {rows}
test_split: train
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_target: label
doc_to_choice: "{{{{choices}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
"""


def write_task(folder: Path, run: Run) -> None:
    """A task, its rows, and the run's tokenizer as `transformers` reads it."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in DOCS), encoding="utf-8")
    (folder / "colours.yaml").write_text(TASK.format(rows=rows), encoding="utf-8")
    tokenizer = run.require_tokenizer()
    published = folder / "tokenizer"
    published.mkdir()
    text = tokenizer.to_published_json(add_begin=True, add_end=False)
    (published / "tokenizer.json").write_text(text, encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokenizer.token(tokenizer.begin_id),
        "eos_token": tokenizer.token(tokenizer.end_id),
    }
    (published / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def evaluate(folder: Path, address: str, context: int) -> list[dict[str, Any]]:
    """The samples that lm-eval writes."""
    settings = {
        "model": "base",
        "base_url": f"{address}/v1/completions",
        "tokenizer": folder / "tokenizer",
        "add_bos_token": True,
        "max_length": context,
        "num_concurrent": 2,
        "max_retries": 1,
    }
    command = [
        *(sys.executable, "-m", "lm_eval", "--model", "local-completions"),
        *("--model_args", ",".join(f"{key}={value}" for key, value in settings.items())),
        *("--tasks", "colours", "--include_path", str(folder), "--log_samples"),
        *("--output_path", str(folder / "out")),
    ]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    ended = subprocess.run(
        command, env={**os.environ, **offline}, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    (file,) = (folder / "out").rglob("samples_colours_*.jsonl")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_lm_eval_scores_answers_as_score_does(address: str, base: Run, tmp_path: Path) -> None:
    write_task(tmp_path, base)
    samples = evaluate(tmp_path, address, base.model.context_length)
    assert len(samples) == len(DOCS)
    for sample in samples:
        doc = sample["doc"]
        for choice, ((log_p, _),) in zip(doc["choices"], sample["resps"], strict=True):
            scored = runs.score(base, doc["prompt"] + choice)
            prompt = base.require_tokenizer().encode(doc["prompt"])
            expected = math.fsum(token.log_p for token in scored.tokens[len(prompt) :])
            assert float(log_p) == pytest.approx(expected, abs=1e-6)
