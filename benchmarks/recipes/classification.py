"""Does an encoder that has filled masks in an encyclopaedia tell spam better than a new one?

    python -m benchmarks.recipes.classification --messages SMSSpamCollection \
        --text wiki.valid.raw wiki.test.raw --out runs/spam

One encoder is pretrained by masked language modelling; then classifiers are trained on from it and
from nothing, with the same tokenizer, model, batches and length, on 500 labelled messages. The
learning rate of each side is the best of three by the loss on messages that one run held out of its
own training file. F1 of spam is counted on the fifth of the messages that none has seen.

Comes in: the two data sets. Goes out: a table, and a dated JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from benchmarks.recipes import spam

from pellucid import runs

RATES = (3e-4, 1e-3, 3e-3)
#: How often each message is seen.
EPOCHS = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=Path, required=True, help="SMSSpamCollection")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="to pretrain on")
    parser.add_argument("--out", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=800, help="updates of the pretraining")
    parser.add_argument("--labelled", type=int, default=500, help="how many messages to learn from")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, test = spam.parted(arguments.messages, arguments.out)
    encoder = pretrained(arguments.text, arguments.out / "pretrained", arguments.steps)
    results: dict[str, Any] = {
        "pretraining": {
            "steps": arguments.steps,
            "seconds": spam.seconds_of(encoder),
            **spam.while_tuning(encoder),
        },
        "messages": {"train": arguments.labelled, "test": lines(test)},
        "epochs": EPOCHS,
    }
    labelled = spam.first_of(train, arguments.labelled, arguments.out / "some.tsv")
    for name, start in (("pretrained", encoder.folder), ("from scratch", None)):
        place = arguments.out / f"on-{name.replace(' ', '-')}"
        results[name] = compared(labelled, test, place, encoder.folder, start, arguments.seeds)
    print(spam.write_results("classification", results))


def pretrained(text: list[Path], folder: Path, steps: int) -> runs.Run:
    """The encoder that has filled masks; taken as it is where it is there already."""
    if folder.is_dir():
        return runs.load(folder)
    every = ("training.batch_size=16", "training.evaluate_every=200")
    return runs.train(
        text,
        objective="mlm",
        steps=steps,
        seed=1,
        out=folder,
        settings=[*spam.SMALL, *every, "training.evaluate_tokens=20000"],
        show=False,
    )


def compared(
    messages: Path,
    test: Path,
    place: Path,
    tokenizer: Path,
    start: Path | None,
    seeds: list[int],
) -> dict[str, Any]:
    """The best rate on the held-out part of training, and F1 with each seed on the rest."""

    def train_classifier(rate: float, seed: int) -> runs.Run:
        return spam.train_classifier(
            messages,
            place / f"rate-{rate}-seed-{seed}",
            tokenizer=tokenizer,
            start=start,
            seed=seed,
            epochs=EPOCHS,
            settings=[spam.adamw(rate, 0.01)],
        )

    tried = {rate: train_classifier(rate, seeds[0]) for rate in RATES}
    losses = {rate: spam.while_tuning(run)["loss_nats"] for rate, run in tried.items()}
    best = min(losses, key=lambda rate: losses[rate])
    classifiers = [tried[best], *(train_classifier(best, seed) for seed in seeds[1:])]
    measured = [spam.judged(run, test) for run in classifiers]
    f1 = [measures["f1"] for measures in measured]
    print(f"{place.name}: rate {best}, F1 {spam.format_spread(f1)}", file=sys.stderr)
    return {
        "held_out_loss_by_rate": losses,
        "learning_rate": best,
        "f1": spam.spread(f1),
        "test": measured,
        "seconds": [spam.seconds_of(run) for run in classifiers],
    }


def lines(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


if __name__ == "__main__":
    main()
