"""What does it cost to watch a training?

    python -m benchmarks.vitals

Whole updates of pellucid, optimiser's step included, not watched and watched in two ways, each in a
process of its own, in turns whose order alternates:

- the free tier: what is known anyway (loss, gradient norm, learning rate) is judged, and after the
  first update no look is ever paid for;
- the default: looks at gradients every 10 updates and at the model's inside every 25, within 2% of
  the training's time;
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
from benchmarks.train_table import counted, machine_line
from benchmarks.workers import Contestant, Turn, in_turns, ratio, ratios, say, seconds, started

HERE = Path(__file__).parent
ALONE = "not watched"
TIERS: dict[str, dict[str, Any] | None] = {
    ALONE: None,
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
    parser.add_argument("--out", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    found = header("benchmarks.vitals", parser, arguments)
    found["shapes"] = {name: measure(name, arguments) for name in arguments.shape}
    write(found, arguments.out, "vitals")
    print(table(found))


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns of one shape."""
    shape = as_asked(name, arguments)
    rounds, updates = AMOUNTS[name]
    rounds, updates = arguments.turns or rounds, arguments.updates or updates
    tiers = TIERS | ({"unbounded": {"max_overhead": None}} if arguments.unbounded else {})
    say(f"{name}: {shape.said()}")
    with tempfile.TemporaryDirectory() as folder:
        ids = write_ids(shape, None, Path(folder) / "ids.npy")
        setup = {
            "shape": as_json(shape),
            "folder": folder,
            "device": "cpu",
            "compiled": False,
            "shared": False,
        }
        entered = [
            Contestant(
                tier,
                "benchmarks.train_pellucid:pellucid",
                {**setup, "watching": watching},
                settled=True,
            )
            for tier, watching in tiers.items()
        ]
        with started(entered, arguments.threads) as workers:
            first = {worker.name: worker.work(updates) for worker in workers}
            turns = in_turns(workers, rounds, updates)
    return {
        "shape": as_json(shape),
        "said": shape.said(),
        "ids": ids,
        "rounds": rounds,
        "updates_in_a_turn": updates,
        "summary": {tier: summary(own, turns[ALONE], first[tier]) for tier, own in turns.items()},
        "turns": {tier: [vars(turn) for turn in own] for tier, own in turns.items()},
    }


def summary(own: list[Turn], alone: list[Turn], first: Turn) -> dict[str, Any]:
    """Seconds of an update, how much longer than alone by both clocks, and what it says itself."""
    longer = {
        clock: sorted(one - 1 for one in ratios(own, alone, clock))
        for clock in ("wall", "processor")
    }
    return {
        "seconds": seconds(own),
        "longer": {clock: median_longer(own, alone, clock) for clock in longer},
        "longer_range": {clock: [values[0], values[-1]] for clock, values in longer.items()},
        "longer_in_all": {clock: total(own, clock) / total(alone, clock) - 1 for clock in longer},
        "said_by_itself": said_by_itself(first, own),
    }


def median_longer(own: list[Turn], alone: list[Turn], clock: str) -> float:
    """The median over rounds of how much longer the watched turn took, as a share."""
    return ratio(own, alone, clock) - 1


def total(turns: list[Turn], clock: str) -> float:
    return sum(getattr(turn, clock) for turn in turns)


def said_by_itself(first: Turn, own: list[Turn]) -> dict[str, float] | None:
    """What watching counts itself: its share of the turns that count, and of all of them."""
    after = own[-1].found["watching"]
    if after is None:
        return None
    before = first.found["watching"] or {"seconds": 0.0, "looks": 0}
    counted_seconds = total(own, "wall")
    return {
        "share": (after["seconds"] - before["seconds"]) / counted_seconds,
        "looks": after["looks"] - before["looks"],
        "share_with_first_turn": after["seconds"] / (counted_seconds + first.wall),
        "looks_with_first_turn": after["looks"],
    }


def table(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        machine_line(found),
        "",
        "| shape | | ms an update | longer by the clock (range) | by processor time (range) | what "
        "watching says it took; with the first turn |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in found["shapes"].items():
        for tier, one in result["summary"].items():
            clocks = [spread(one, clock) if tier != ALONE else "" for clock in one["longer"]]
            milliseconds = f"{one['seconds'] * 1e3:,.1f}"
            lines.append(
                f"| {name} | {tier} | {milliseconds} | {' | '.join(clocks)} | "
                f"{own_words(one['said_by_itself'])} |"
            )
    lines += ["", *(f"**{name}**: {amounts(one)}" for name, one in found["shapes"].items())]
    return "\n".join(lines)


def spread(one: dict[str, Any], clock: str) -> str:
    low, high = one["longer_range"][clock]
    return f"{one['longer'][clock]:+.1%} ({low:+.1%} to {high:+.1%})"


def own_words(said: dict[str, float] | None) -> str:
    if said is None:
        return ""
    return (
        f"{said['share']:.2%} in {counted(int(said['looks']), 'look')}; "
        f"{said['share_with_first_turn']:.2%} in {int(said['looks_with_first_turn'])}"
    )


def amounts(result: dict[str, Any]) -> str:
    rounds = counted(result["rounds"], "round")
    return f"{result['said']}; {rounds} of {counted(result['updates_in_a_turn'], 'update')}."


if __name__ == "__main__":
    main()
