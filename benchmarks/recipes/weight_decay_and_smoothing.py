"""Adam with L2 in its gradient against AdamW, and what label smoothing does to calibration.

    python -m benchmarks.recipes.weight_decay_and_smoothing --messages SMSSpamCollection \
        --tokenizer runs/spam/pretrained --out runs/decay

A small encoder learns to tell spam from nothing, on 500 messages. Both optimisers get the best of
the same learning rates and of as many strengths, by the loss on messages that are held out of those
500; then three seeds each. The better of them is trained with smoothed labels too. All is judged
on the fifth of the messages that no run has seen.

Comes in: the messages, and a run whose tokenizer is taken. Goes out: a table, and a dated JSON file
under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from benchmarks.recipes import spam

from pellucid import runs

MESSAGES, EPOCHS = 500, 4.0
RATES = (1e-3, 3e-3)
#: Each optimiser with the strengths that are tried; 0 is the same run for both.
KINDS: dict[str, tuple[Callable[[float, float], str], tuple[float, ...]]] = {
    "Adam + L2": (spam.adam, (0.0, 1e-2)),
    "AdamW": (spam.adamw, (0.0, 1.0)),
}
SMOOTHING = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=Path, required=True, help="SMSSpamCollection")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a run that has it")
    parser.add_argument("--out", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, test = spam.parted(arguments.messages, arguments.out)
    labelled = spam.first_of(train, MESSAGES, arguments.out / "some.tsv")
    first, *others = arguments.seeds

    def train_one(seed: int, optimiser: str, smoothing: float, name: str) -> runs.Run:
        print(name, seed, file=sys.stderr)
        return spam.train_classifier(
            labelled,
            arguments.out / f"{name}-seed-{seed}",
            tokenizer=arguments.tokenizer,
            start=None,
            seed=seed,
            epochs=EPOCHS,
            model=spam.TINY,
            settings=[
                optimiser,
                f"objective.label_smoothing={smoothing}",
                "text.held_out=0.2",
            ],
        )

    results: dict[str, Any] = {"messages": MESSAGES, "epochs": EPOCHS}
    best: dict[str, tuple[float, str, str]] = {}
    plain: dict[float, runs.Run] = {}
    for kind, (optimiser, strengths) in KINDS.items():
        tried: dict[str, Any] = {}
        for rate, strength in product(RATES, strengths):
            optimiser_setting, name = (
                optimiser(rate, strength),
                f"{kind[:5].strip()}-{rate}-{strength}",
            )
            # without a strength the two are one optimiser
            run = plain.get(rate) if strength == 0 else None
            run = run or train_one(first, optimiser_setting, 0.0, name)
            if strength == 0:
                plain[rate] = run
            loss = spam.while_tuning(run)["loss_nats"]
            tried[f"rate {rate}, strength {strength}"] = loss
            if kind not in best or loss < best[kind][0]:
                best[kind] = (loss, optimiser_setting, name)
                run_of_best = run
        _, optimiser_setting, name = best[kind]
        measured = [
            run_of_best,
            *(train_one(seed, optimiser_setting, 0.0, name) for seed in others),
        ]
        results[kind] = figures(measured, test) | {
            "held_out_loss": tried,
            "chosen": optimiser_setting,
        }
    winner = min(best, key=lambda kind: best[kind][0])
    _, optimiser_setting, name = best[winner]
    smoothed = [
        train_one(seed, optimiser_setting, SMOOTHING, "smoothed") for seed in arguments.seeds
    ]
    results["smoothed"] = figures(smoothed, test) | {"with": winner, "smoothing": SMOOTHING}
    print(spam.write_results("weight-decay-and-smoothing", results))


def figures(classifiers: list[runs.Run], test: Path) -> dict[str, Any]:
    """What runs with different seeds have in common."""
    measured = [spam.judged(run, test) for run in classifiers]
    names = ("f1", "accuracy", "loss_nats", "ece", "brier")
    spreads = {name: spam.spread([measures[name] for measures in measured]) for name in names}
    return {**spreads, "seconds": [spam.seconds_of(run) for run in classifiers]}


if __name__ == "__main__":
    main()
