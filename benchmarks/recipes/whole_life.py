"""One small model from pretraining to a reward: docs/recipes/whole-life.md.

    python -m benchmarks.recipes.whole_life TEXT... --answers ANSWERS --preferences PREFERENCES

Comes in: texts to read, rows to answer, rows to prefer. Goes out: runs under `--out`, and their
figures in a dated JSON file. Runs that are there already are not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

import pellucid
from pellucid import config, runs
from pellucid.runs import Run, RunFolder, read_events
from pellucid.training import Evaluated, Finished, Started

BENCHMARKS = Path(__file__).parents[1]
REWARD = "benchmarks.recipes.rewards:short"
QUESTIONS = (
    "What is the capital of France?",
    "Rewrite the sentence in passive voice.\n\nThe chef cooks the meal.",
    "Name a synonym for 'happy'.",
    "Convert 5 kilometers to meters.",
)


@dataclass(frozen=True)
class Stage:
    """A command line of the page, as arguments of `pellucid.train`."""

    name: str
    start: str | None
    files: str
    choices: dict[str, Any]
    settings: tuple[str, ...] = field(default=())


#: Evaluated so often for the sake of the curves: it does not change the training.
_SFT, _DPO, _POLICY = (f"training.evaluate_every={steps}" for steps in (32, 33, 20))
_REWARDED = {"objective": "policy-gradient", "reward": REWARD, "steps": 60}
STAGES = (
    Stage("base", None, "texts", {"steps": 1400}, ("training.evaluate_every=350",)),
    Stage("sft", "base", "answers", {"objective": "sft"}, (_SFT,)),
    Stage(
        "sft-lora",
        "base",
        "answers",
        {"objective": "sft", "lora": 16},
        (_SFT, "optimiser.learning_rate=5e-3"),
    ),
    Stage("dpo", "sft", "preferences", {"objective": "dpo"}, (_DPO,)),
    Stage(
        "dpo-lora",
        "sft",
        "preferences",
        {"objective": "dpo", "lora": 16},
        (_DPO, "optimiser.learning_rate=1e-3"),
    ),
    Stage("leash", "sft", "answers", _REWARDED, (_POLICY,)),
    Stage("no-leash", "sft", "answers", _REWARDED, (_POLICY, "objective.beta=0")),
)
#: The facts of a run at its start, without the paths.
_FACTS = ("rows", "packed", "held out", "tokens", "model", "updated", "batch", "on", "seed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--answers", required=True)
    parser.add_argument("--preferences", required=True)
    parser.add_argument("--out", type=Path, default=Path("whole-life"))
    parser.add_argument("--only", nargs="*", help="names of stages; all by default")
    arguments = parser.parse_args()
    files = {
        "texts": arguments.texts,
        "answers": [arguments.answers],
        "preferences": [arguments.preferences],
    }
    stages = [stage for stage in STAGES if not arguments.only or stage.name in arguments.only]
    figures_by_stage = {
        stage.name: figures(trained(stage, arguments.out, files)) for stage in stages
    }
    date = time.strftime("%Y-%m-%d")
    results = {
        "date": date,
        "machine": machine(),
        "load": os.getloadavg()[0],
        "stages": figures_by_stage,
    }
    file = BENCHMARKS / "results" / f"whole-life-{date}.json"
    if file.exists():  # stages may be run one by one
        figures_by_stage = json.loads(file.read_text(encoding="utf-8"))["stages"] | figures_by_stage
        results["stages"] = figures_by_stage
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures_by_stage, indent=1))


def trained(
    stage: Stage,
    runs_folder: Path,
    files: Mapping[str, Sequence[str]],
) -> Run:
    """The run of a stage: trained, or as it lies there."""
    folder = runs_folder / stage.name
    if (folder / "config.toml").exists():
        return runs.load(folder)
    return pellucid.train(
        files[stage.files],
        start=None if stage.start is None else runs_folder / stage.start,
        out=folder,
        settings=stage.settings,
        **stage.choices,
    )


def figures(run: Run) -> dict[str, Any]:
    """The measures of a run, before its first update and after its last, and its answers."""
    events = read_events(RunFolder(run.folder).metrics)
    held_out = [
        {"step": e.step, "loss_nats": e.loss_nats, "over": e.over, **dict(e.measures)}
        for e in events
        if isinstance(e, Evaluated)
    ]
    started = next(dict(e.facts) for e in events if isinstance(e, Started))
    seconds = sum(e.seconds for e in events if isinstance(e, Finished))
    facts = {name: started[name] for name in _FACTS if name in started}
    results = {"facts": facts, "seconds": seconds, "held_out": held_out}
    if run.config.start is None:
        return results
    answers = [answer.text.strip() for answer in runs.answer(run, list(QUESTIONS))]
    results["answers"] = dict(zip(QUESTIONS, answers, strict=True))
    return results | sameness(run)


def sameness(run: Run) -> dict[str, Any]:
    """How alike the greedy answers to different prompts are, and how long."""
    answers = [answer.text.strip() for answer in runs.answer(run, prompts(run))]
    words = [len(answer.split()) for answer in answers]
    return {
        "prompts": len(answers),
        "distinct_answers": len(set(answers)),
        "words_per_answer": sum(words) / len(words),
    }


def prompts(run: Run, n_prompts: int = 50) -> list[str]:
    """The first prompts of the rows that a run learnt from, without their answers."""
    rows = json.loads(Path(rows_of(run)).read_text(encoding="utf-8"))
    questions = [
        f"{row['instruction']}\n\n{row['input']}" if row.get("input") else row["instruction"]
        for row in rows
    ]
    return [question for question in questions if len(question) < 200][:n_prompts]


def rows_of(run: Run) -> str:
    """The one file with the rows of a run."""
    corpus = run.config.text.corpus
    assert isinstance(corpus, config.Rows)
    (file,) = corpus.paths
    return file


if __name__ == "__main__":
    main()
