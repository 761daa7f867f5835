"""What does it cost to watch a training?

    python -m benchmarks.vitals

Whole updates of pellucid, optimiser's step included, not watched and watched in two ways, each in a
process of its own, in turns whose order alternates:

- the free tier judges numbers that are known anyway (loss, gradient norm, learning rate), and takes
  no looks after the first update.
- the default: looks at gradients every 10 updates and at the model's inside every 25, within 2% of
  the training's time.
- with `--unbounded`, the same looks whatever they cost.

Three shapes, from an update of 20 ms to one of a second. A turn is long enough to hold looks of
both kinds, and what counts is the median over rounds of how much longer the watched turn took. The
first turn, in which first looks are on credit, warms up.

Comes in: flags. Goes out: a table on standard output, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import header, write
from benchmarks.shapes import add_numbers, as_asked, as_json, write_ids
from benchmarks.train_table import format_count, machine_line
from benchmarks.workers import (
    Contestant,
    Turn,
    in_turns,
    print_progress,
    ratio,
    ratios,
    seconds,
    started,
)

FOLDER = Path(__file__).parent
NOT_WATCHED = "not watched"
TIERS: dict[str, dict[str, Any] | None] = {
    NOT_WATCHED: None,
    # no budget ever pays for a second look
    "free tier": {"max_overhead": 1e-9},
    "default": {},
}
#: Rounds that count, and updates in a turn.
AMOUNTS = {"char": (6, 100), "between": (4, 50), "mid": (2, 25)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=list(AMOUNTS), default=list(AMOUNTS))
    add_numbers(parser)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, help="rounds that count, instead of 6, 4 and 2")
    parser.add_argument("--updates", type=int, help="in a turn, instead of 100, 50 and 25")
    parser.add_argument("--unbounded", action="store_true", help="looks whatever they cost, too")
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    results = header("benchmarks.vitals", parser, arguments)
    results["shapes"] = {name: measure(name, arguments) for name in arguments.shape}
    write(results, arguments.out, "vitals")
    print(table(results))


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns of one shape."""
    shape = as_asked(name, arguments)
    rounds, updates = AMOUNTS[name]
    rounds, updates = arguments.turns or rounds, arguments.updates or updates
    tiers = TIERS | ({"unbounded": {"max_overhead": None}} if arguments.unbounded else {})
    print_progress(f"{name}: {shape.describe()}")
    with tempfile.TemporaryDirectory() as folder:
        ids = write_ids(shape, None, Path(folder) / "ids.npy")
        setup = {
            "shape": as_json(shape),
            "folder": folder,
            "device": "cpu",
            "compiled": False,
            "shared": False,
        }
        contestants = [
            Contestant(
                tier,
                "benchmarks.train_pellucid:pellucid",
                {**setup, "watching": watching},
                allocator_settled=True,
            )
            for tier, watching in tiers.items()
        ]
        with started(contestants, arguments.threads) as workers:
            first = {worker.name: worker.work(updates) for worker in workers}
            turns = in_turns(workers, rounds, updates)
    return {
        "shape": as_json(shape),
        "said": shape.describe(),
        "ids": ids,
        "rounds": rounds,
        "updates_in_a_turn": updates,
        "summary": {
            tier: summary(own_turns, turns[NOT_WATCHED], first[tier])
            for tier, own_turns in turns.items()
        },
        "turns": {tier: [vars(turn) for turn in own_turns] for tier, own_turns in turns.items()},
    }


def summary(own_turns: list[Turn], unwatched: list[Turn], first: Turn) -> dict[str, Any]:
    """Seconds of an update, how much longer than alone by both clocks, and what it says itself."""
    longer = {
        clock: sorted(ratio_of_round - 1 for ratio_of_round in ratios(own_turns, unwatched, clock))
        for clock in ("wall", "processor")
    }
    return {
        "seconds": seconds(own_turns),
        "longer": {clock: median_longer(own_turns, unwatched, clock) for clock in longer},
        "longer_range": {clock: [values[0], values[-1]] for clock, values in longer.items()},
        "longer_in_all": {
            clock: total(own_turns, clock) / total(unwatched, clock) - 1 for clock in longer
        },
        "said_by_itself": own_cost(first, own_turns),
    }


def median_longer(own_turns: list[Turn], unwatched: list[Turn], clock: str) -> float:
    """The median over rounds of how much longer the watched turn took, as a share."""
    return ratio(own_turns, unwatched, clock) - 1


def total(turns: list[Turn], clock: str) -> float:
    return sum(getattr(turn, clock) for turn in turns)


def own_cost(first: Turn, own_turns: list[Turn]) -> dict[str, float] | None:
    """What watching counts itself: its share of the turns that count, and of all of them."""
    after = own_turns[-1].found["watching"]
    if after is None:
        return None
    before = first.found["watching"] or {"seconds": 0.0, "looks": 0}
    counted_seconds = total(own_turns, "wall")
    return {
        "share": (after["seconds"] - before["seconds"]) / counted_seconds,
        "looks": after["looks"] - before["looks"],
        "share_with_first_turn": after["seconds"] / (counted_seconds + first.wall),
        "looks_with_first_turn": after["looks"],
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        machine_line(results),
        "",
        "| shape | | ms an update | longer by the clock (range) | by processor time (range) | what "
        "watching says it took; with the first turn |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in results["shapes"].items():
        for tier, figures in result["summary"].items():
            clocks = [
                spread(figures, clock) if tier != NOT_WATCHED else "" for clock in figures["longer"]
            ]
            milliseconds = f"{figures['seconds'] * 1e3:,.1f}"
            lines.append(
                f"| {name} | {tier} | {milliseconds} | {' | '.join(clocks)} | "
                f"{format_own_cost(figures['said_by_itself'])} |"
            )
    lines += [
        "",
        *(
            f"**{name}**: {amounts(shape_result)}"
            for name, shape_result in results["shapes"].items()
        ),
    ]
    return "\n".join(lines)


def spread(figures: dict[str, Any], clock: str) -> str:
    low, high = figures["longer_range"][clock]
    return f"{figures['longer'][clock]:+.1%} ({low:+.1%} to {high:+.1%})"


def format_own_cost(cost: dict[str, float] | None) -> str:
    if cost is None:
        return ""
    return (
        f"{cost['share']:.2%} in {format_count(int(cost['looks']), 'look')}; "
        f"{cost['share_with_first_turn']:.2%} in {int(cost['looks_with_first_turn'])}"
    )


def amounts(result: dict[str, Any]) -> str:
    rounds = format_count(result["rounds"], "round")
    return f"{result['said']}; {rounds} of {format_count(result['updates_in_a_turn'], 'update')}."


if __name__ == "__main__":
    main()
