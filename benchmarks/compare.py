"""How often does `pellucid compare` call equal configs different, and find a better one?

    python -m benchmarks.compare --out results --pool 120

False differences. A pool of runs of one config, each with a seed of its own. A comparison draws two
sides from the pool, without a run in both, and is made by `pellucid.lab` as any other. It is false
if its interval leaves out zero. The comparisons share runs, so they are not independent, and a
binomial interval would be too narrow. The interval here is a jackknife over groups of runs: it
leaves out all comparisons with a run of one group at a time.

Power. A second pool with the same seeds, of a config that is known to be better: with a wider
feed-forward layer. All its seeds give the effect, the effect gives the predicted share of
comparisons that find it, and comparisons of fewer seeds give the share that does.

Comes in: flags. Goes out: a table on standard output, and a dated JSON file. Runs stay in
`--runs`, so that a larger pool trains the new seeds alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.machine import header, write
from pellucid.lab import compare, mean_interval, paired_difference, power

FOLDER = Path(__file__).parent
#: A model of some thousand weights, on bytes.
TINY = """\
base = "nano"
[text]
tokenizer = "Bytes"
[model]
context_length = 32
d_model = 16
[model.decoder]
n_layers = 1
dropout = 0.0
attention = {{kind = "MultiHead", n_heads = 2, n_kv_heads = 2, d_head = 8}}
feed_forward = {{kind = "MLP", d_ff = {d_ff}, activation = "gelu", bias = false}}
[optimiser]
kind = "AdamW"
learning_rate = 0.005
betas = [0.9, 0.99]
eps = 1e-8
weight_decay = 0.0
[training]
batch_size = 8
precision = "float32"
evaluate_tokens = 8000
evaluate_every = 1000
checkpoint_every = 1000
"""
#: The width of the feed-forward layer of each config.
WIDTHS = {"base": 32, "better": 96}
#: The runs are put into so many groups; the jackknife leaves out one at a time.
GROUPS = 100


class Rate(NamedTuple):
    """A share of comparisons with a 95% interval that knows that they share runs."""

    share: float
    low: float
    high: float
    n_comparisons: int
    n_runs: int


def false_rate(values: Sequence[float], n_seeds: int, n_comparisons: int, seed: int = 0) -> Rate:
    """The share of comparisons of equal configs that are called different.

    Args:
        values: the measure of each run of a pool.
        n_seeds: the runs on each side of a comparison.
        n_comparisons: how many to draw.
        seed: of the drawing.
    """
    draws = _draws(len(values), 2 * n_seeds, n_comparisons, seed)

    def is_called(run_indices: Sequence[int]) -> bool:
        sides = [
            [values[i] for i in run_indices[part]] for part in (np.s_[:n_seeds], np.s_[n_seeds:])
        ]
        return is_different(*sides)

    return _rate(draws, is_called, len(values))


def found_rate(
    first: Sequence[float], second: Sequence[float], n_seeds: int, n_comparisons: int, seed: int = 0
) -> Rate:
    """The share of comparisons by fewer seeds that call the second config better (lower).

    Args:
        first: the measure of each run of one config.
        second: the measure of the other one, for the same seeds.
        n_seeds: the seeds of a comparison.
        n_comparisons: how many to draw.
        seed: of the drawing.
    """
    draws = _draws(len(first), n_seeds, n_comparisons, seed)

    def is_called(run_indices: Sequence[int]) -> bool:
        sides = [[values[i] for i in run_indices] for values in (first, second)]
        return is_different(*sides) and np.mean(sides[1]) < np.mean(sides[0])

    return _rate(draws, is_called, len(first))


def is_different(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether the interval of the difference leaves out zero, as the verdict has it."""
    interval = mean_interval([b - a for a, b in zip(first, second, strict=True)])
    return interval is not None and not interval[0] <= 0 <= interval[1]


def _draws(n_runs: int, n_drawn: int, n_comparisons: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.permutation(n_runs)[:n_drawn] for _ in range(n_comparisons)]


def _rate(
    draws: Sequence[np.ndarray], is_called: Callable[[Sequence[int]], bool], n_runs: int
) -> Rate:
    from scipy import stats

    is_different_by_draw = np.array([is_called(run_indices) for run_indices in draws])
    groups = min(GROUPS, n_runs // 2)
    group_of = np.random.default_rng(1).permutation(n_runs) % groups
    members = np.array(
        [np.bincount(group_of[run_indices], minlength=groups) > 0 for run_indices in draws]
    )
    shares_without = [
        is_different_by_draw[~members[:, group]].mean()
        for group in range(groups)
        if not members[:, group].all()
    ]
    share = float(is_different_by_draw.mean())
    if len(shares_without) < 2:
        raise SystemExit(f"{n_runs} runs are too few for these comparisons: give a larger pool")
    mean = float(np.mean(shares_without))
    error = math.sqrt(
        (len(shares_without) - 1)
        / len(shares_without)
        * sum((w - mean) ** 2 for w in shares_without)
    )
    reach = float(stats.t.ppf(0.975, len(shares_without) - 1)) * error
    return Rate(share, max(0.0, share - reach), min(1.0, share + reach), len(draws), n_runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pool", type=int, default=120, help="runs of the equal configs")
    parser.add_argument("--better", type=int, default=40, help="of them, seeds of the better one")
    parser.add_argument("--steps", type=int, default=60, help="updates of a run")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[3, 5, 8, 12, 20], help="of a comparison"
    )
    parser.add_argument("--comparisons", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of all workers together")
    parser.add_argument("--runs", type=Path, default=Path("compare-runs"))
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = header("benchmarks.compare", parser, arguments)
    result |= measure(arguments)
    write(result, arguments.out, "compare")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the pools, and count."""
    pool = _train(["base"], arguments.pool, arguments)[0]
    base, better = _train(["base", "better"], arguments.better, arguments)
    full_difference = paired_difference(base, better)
    assert full_difference.deviation
    effect = full_difference.mean / full_difference.deviation
    rows: list[dict[str, Any]] = []
    print(f"{'seeds':>5}  {'false':>6}  interval        {'power':>6}  interval        predicted")
    for n_seeds in arguments.seeds:
        false = false_rate(pool, n_seeds, arguments.comparisons)
        hits = found_rate(base, better, n_seeds, arguments.comparisons)
        predicted = power(effect, n_seeds)
        print(
            f"{n_seeds:>5}  {false.share:6.1%}  {false.low:.1%} to {false.high:.1%}    "
            f"{hits.share:6.1%}  {hits.low:.1%} to {hits.high:.1%}    {predicted:.1%}"
        )
        rows.append(
            {
                "seeds": n_seeds,
                "false": false._asdict(),
                "found": hits._asdict(),
                "predicted_power": predicted,
            }
        )
    return {
        "rows": rows,
        "effect": effect,
        "difference": full_difference.mean,
        "interval": full_difference.interval,
        "values": {"pool": pool, "base": base, "better": better},
    }


def _train(names: Sequence[str], n_seeds: int, arguments: argparse.Namespace) -> list[list[float]]:
    """The value of each seed of each config."""
    arguments.runs.mkdir(parents=True, exist_ok=True)
    files = [arguments.runs / f"{name}.toml" for name in names]
    for name, file in zip(names, files, strict=True):
        file.write_text(TINY.format(d_ff=WIDTHS[name]), encoding="utf-8")
    comparison = compare(
        files,
        seeds=n_seeds,
        steps=arguments.steps,
        out=arguments.runs / "runs",
        workers=arguments.workers,
    )
    groups = [variant.values for variant in comparison.variants]
    if any(value is None for group in groups for value in group):
        raise SystemExit("a run met a value that is not finite: lower the learning rate")
    return [[value for value in group if value is not None] for group in groups]


if __name__ == "__main__":
    main()
