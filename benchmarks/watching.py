"""What does watching cost in other people's loops?

    python -m benchmarks.watching

Models of `transformers`, built from a config with random weights, in a plain loop over random
tokens: once alone and once watched at the default budget, in one process, in turns of some updates
whose order alternates. What counts is processor time, which a busy machine changes least. The
first update has the first looks; it is given apart, and the shares are of all updates after it.

Comes in: flags. Goes out: a table on standard output, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import header, write
from benchmarks.train_table import machine_line
from pellucid.vitals import watch

FOLDER = Path(__file__).parent
VOCAB, ROWS, TIME = 500, 4, 32
WIDTH: dict[str, Any] = {
    "vocab_size": VOCAB,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def gpt2(width: int = 128, layers: int = 4) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": TIME}
    return GPT2LMHeadModel(GPT2Config(**shape, **WIDTH))


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4}
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=4, **shape, **WIDTH))


def t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    shape = {"d_model": 128, "d_ff": 512, "d_kv": 32, "num_layers": 3, "num_heads": 4}
    shape |= {"decoder_start_token_id": 0}
    return T5ForConditionalGeneration(T5Config(**shape, **WIDTH))


MODELS: dict[str, tuple[Callable[[], Any], int]] = {"gpt2": (gpt2, 1), "llama": (llama, 1)}
MODELS |= {"t5, two parts": (t5, 2)}
MODELS |= {"small gpt2": (partial(gpt2, 64, 2), 1), "wide gpt2": (partial(gpt2, 320, 6), 1)}


class Side:
    """One training: alone, or watched."""

    def __init__(self, model: Any, parts: int, *, watched: bool) -> None:
        self.model, self.parts, self.step = model.train(), parts, 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.stack = ExitStack()
        self.watch = None
        self.randomness = torch.get_rng_state()
        self.probe = 0.0
        if watched:
            self.watch = self.stack.enter_context(watch(model, self.optimizer, clip_norm=1.0))
            self.run_probe, self.watch.first_call.run = self.watch.first_call.run, self.time_probe

    def time_probe(self, *arguments: Any) -> None:
        """The probe of the first call, and its processor seconds."""
        started = time.process_time()
        self.run_probe(*arguments)
        self.probe += time.process_time() - started

    def turn(self, updates: int) -> float:
        """Processor seconds of some updates."""
        if self.watch is not None:
            self.watch.resume()
        torch.set_rng_state(self.randomness)  # each side draws its own dropout
        started = time.process_time()
        for _ in range(updates):
            self.update()
        seconds = time.process_time() - started
        self.randomness = torch.get_rng_state()
        if self.watch is not None:
            self.watch.pause()
        return seconds

    def update(self) -> None:
        self.step += 1
        draws = torch.Generator().manual_seed(self.step)
        for _ in range(self.parts):
            ids = torch.randint(1, VOCAB, (ROWS, TIME), generator=draws)
            loss = self.model(input_ids=ids, labels=ids).loss / self.parts
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.watch is not None:
            self.watch.step(loss)


def measure(name: str, updates: int, turn: int) -> dict[str, Any]:
    """Both sides of one model, in turns."""
    build, parts = MODELS[name]
    sides: dict[str, Side] = {}
    for side in ("alone", "watched"):
        torch.manual_seed(0)
        sides[side] = Side(build(), parts, watched=side == "watched")
    first = {side: training.turn(1) for side, training in sides.items()}
    turns: dict[str, list[float]] = {side: [] for side in sides}
    for place in range((updates - 1) // turn):
        for side in ("alone", "watched") if place % 2 else ("watched", "alone"):
            turns[side].append(sides[side].turn(turn))
    watched = sides["watched"].watch
    assert watched is not None
    probe = sides["watched"].probe
    totals = {side: first[side] + sum(turns[side]) for side in sides}
    ratios = [b / a - 1 for a, b in zip(turns["alone"], turns["watched"], strict=True)]
    marks = watched.state.marks
    result = {
        "ms_an_update": 1e3 * statistics.median(turns["alone"]) / turn,
        "longer_after_the_first": sum(turns["watched"]) / sum(turns["alone"]) - 1,
        "median_of_turns": statistics.median(ratios),
        "quartiles_of_turns": statistics.quantiles(ratios)[::2],
        "longer_over_the_run": (totals["watched"] - probe) / totals["alone"] - 1,
        "first_update": first,
        "probe": probe,
        "said_by_itself": watched.cost.share,
        "readings": watched.cost.n_readings,
        "updates_in_the_ledger": marks["bare"].n_seeable if "bare" in marks else 0,
        "updates": sides["alone"].step,
        "same_weights": all(
            torch.equal(a, b)
            for a, b in zip(
                sides["alone"].model.parameters(), sides["watched"].model.parameters(), strict=True
            )
        ),
    }
    sides["watched"].stack.close()
    return result


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        machine_line(results),
        "",
        "| model | ms an update | longer after the first update | median of turns (quartiles) | "
        "longer over the run | counted | first update, watched, its probe, alone | in the ledger | "
        "same weights |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results["models"].items():
        low, high = row["quartiles_of_turns"]
        first = row["first_update"]
        lines.append(
            f"| {name} | {row['ms_an_update']:.1f} | {row['longer_after_the_first']:+.1%} | "
            f"{row['median_of_turns']:+.1%} ({low:+.1%} to {high:+.1%}) | "
            f"{row['longer_over_the_run']:+.1%} | {row['said_by_itself']:.1%} | "
            f"{first['watched']:.2f} s, {row['probe']:.2f} s, {first['alone']:.2f} s | "
            f"{row['updates_in_the_ledger']} of {row['updates']} | "
            f"{'yes' if row['same_weights'] else 'no'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--updates", type=int, default=1001)
    parser.add_argument("--turn", type=int, default=25, help="updates in a turn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = header("benchmarks.watching", parser, arguments)
    results["models"] = {
        name: measure(name, arguments.updates, arguments.turn) for name in arguments.model
    }
    write(results, arguments.out, "watching")
    print(table(results))


if __name__ == "__main__":
    main()
