"""How many of the features of an encoder are needed to tell spam?

    python -m benchmarks.recipes.sparse_features --messages SMSSpamCollection \
        --tokenizer runs/spam/pretrained --out runs/sparse

A small encoder learns to tell spam from nothing, on 500 messages. Then the classifier's blocks are
frozen, and its final norm and its head continue to learn by gradient descent. The matrix that reads
the pooled state of a text (`classifier.weight`, a row for each class, a column for each feature)
pays an elastic net. A feature survives where a class still has a weight for it that is not 0.

Comes in: the messages, a run that tells them apart. Goes out: a table, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from benchmarks.recipes import spam

from pellucid import runs

STRENGTHS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
L2 = 1e-4
#: How many messages, and how often each of them is seen.
MESSAGES, EPOCHS = 500, 8.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=Path, required=True, help="SMSSpamCollection")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a run that has it")
    parser.add_argument("--out", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, test = spam.parted(arguments.messages, arguments.out)
    labelled = spam.first_of(train, MESSAGES, arguments.out / "some.tsv")
    classifier = spam.train_classifier(
        labelled,
        arguments.out / "classifier",
        tokenizer=arguments.tokenizer,
        start=None,
        seed=arguments.seed,
        epochs=EPOCHS,
        settings=[spam.adamw(3e-3, 0.01)],
        model=spam.TINY,
    )
    before = spam.judged(classifier, test)
    rows: list[dict[str, Any]] = []
    for l1 in STRENGTHS:
        run = picked(labelled, arguments.out / f"l1-{l1}", classifier.folder, l1, arguments.seed)
        measured = spam.judged(run, test)
        rows.append({"l1": l1, **survivors(run), "test": measured, "seconds": spam.seconds_of(run)})
        print(rows[-1], file=sys.stderr)
    sizes = {"messages": MESSAGES, "epochs": EPOCHS, "l2": L2}
    print(spam.write_results("sparse-features", {**sizes, "before": before, "rows": rows}))


def picked(messages: Path, folder: Path, start: Path, l1: float, seed: int) -> runs.Run:
    """The head and the final norm trained on with the penalty, by gradient descent."""
    net = f'{{kind="ElasticNet", l1={l1}, l2={L2}, parameters=["classifier.weight"]}}'
    return spam.train_classifier(
        messages,
        folder,
        tokenizer=start,
        start=start,
        seed=seed,
        epochs=EPOCHS,
        settings=[
            'optimiser={kind="SGD", learning_rate=0.1, momentum=0.9, l2=0.0}',
            'trained={kind="LastLayers", count=0}',
            f"penalties=[{net}]",
        ],
    )


def survivors(run: runs.Run) -> dict[str, float]:
    """How many features are still looked at, and how many weights are exactly 0."""
    weight = dict(run.model.named_parameters())["classifier.weight"].detach()
    return {
        "features": weight.shape[1],
        "survive": int((weight != 0).any(dim=0).sum()),
        "weights": weight.numel(),
        "zeros": int((weight == 0).sum()),
    }


if __name__ == "__main__":
    main()
