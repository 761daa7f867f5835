"""The results of a training, and the next commands."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import print_result, shorten
from pellucid.parallel import own_command

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Event

#: The words for a vital sign, the most severe last; empty if nothing was measured.
_WORDS = ("", "calm", "watch", "sick")


class TrainSummary:
    """An observer that keeps the latest value of each result."""

    def __init__(self, reward: str | None = None) -> None:
        self.reward_flag = "" if reward is None else f" --reward {shlex.quote(reward)}"
        self.facts: dict[str, Any] = {}
        self.resume_command = ""
        self.best = ""
        self.worst_words: dict[str, str] = {}
        self.vitals_cost = ""

    def __call__(self, event: Event) -> None:
        """Keep what the summary needs of an event."""
        from pellucid.training import (
            CheckpointSaved,
            Evaluated,
            Logged,
            Resumed,
            Sampled,
            Started,
            Vitals,
        )

        self.facts["step"] = event.step
        match event:
            case Started() | Resumed():
                folder = event.folder.replace("\\", "/")
                self.resume_command = (
                    f"{own_command()} train --resume {shlex.quote(folder)}{self.reward_flag}"
                )
            case Logged():
                self.facts |= {"train_loss_nats": event.losses[-1], "tokens": event.tokens}
            case Evaluated():
                measures = {"loss_nats": event.loss_nats, **dict(event.measures)}
                self.facts |= {f"held_out_{name}": value for name, value in measures.items()}
            case Sampled():
                self.facts |= {"sentence": event.sentence, "continuation": event.continuation}
            case CheckpointSaved():
                self.best = event.path if event.best else self.best
            case Vitals():
                self.facts["vitals"] = dict(event.rows)
                for name, word in event.rows:
                    self.worst_words[name] = max(
                        self.worst_words.get(name, ""), word, key=_WORDS.index
                    )
                self.vitals_cost = _describe_cost(event.cost)
            case _:
                pass


def print_summary(arguments: argparse.Namespace, run: Run, result: TrainSummary) -> None:
    """Print the last numbers, a sample, and the next commands.

    Args:
        arguments: with `--json` programs get the numbers.
        run: the trained run.
        result: its last numbers.
    """
    facts = result.facts | {"run": str(run.folder), "checkpoint": str(run.checkpoint)}
    print_result(arguments, facts, _next_steps(run, result))


def _next_steps(run: Run, result: TrainSummary) -> Iterator[str]:
    from pellucid import config

    folder, facts = shlex.quote(str(run.folder)), result.facts
    lines = [""]
    if config.continues_text(run.config.objective):
        lines += _sample(run, facts)
    elif "sentence" in facts:
        lines += [
            f"the model's output for {shorten(str(facts['sentence']))!r}",
            "",
            *(f"    {line}" for line in _lines_of(facts["continuation"])),
            "",
        ]
    lines += describe_vitals(result, folder)
    lines += [
        "what next",
        *(f"    {command}" for command in _commands(run, folder, facts)),
        f"    {own_command()} train --resume {folder}{result.reward_flag}",
        f"    pellucid verify-resume {folder}{result.reward_flag}",
    ]
    if result.best not in ("", str(run.checkpoint)):
        best = shlex.quote(result.best)
        lines += [
            "",
            "the held-out loss was lowest earlier: after that the model memorised its data;",
            f"the best model is kept: {_commands(run, best, facts)[0]}",
        ]
    yield from lines


def describe_vitals(result: TrainSummary, folder: str) -> list[str]:
    """The vital signs of the run, and the cost of watching them."""
    if not result.worst_words:
        return []
    current = result.facts["vitals"]
    abnormal = [
        f"{name} {'is' if current[name] == word else 'was'} {word}"
        for name, word in result.worst_words.items()
        if word not in ("", "calm")
    ]
    lines = [f"vital signs: {', '.join(abnormal) or 'calm throughout'}", result.vitals_cost]
    if abnormal:
        lines += [
            "the causes, and the rules of the words",
            f"    pellucid diagnose {folder}",
            f"    pellucid vitals {folder} --why",
        ]
    return [*filter(None, lines), ""]


def _describe_cost(cost: tuple[float, float, int] | None) -> str:
    """The cost of watching, if known."""
    if cost is None or not cost[1]:
        return ""
    from pellucid.vitals import Cost

    return Cost(*cost).message()


def _commands(run: Run, folder: str, facts: dict[str, Any]) -> list[str]:
    """Commands for a run; the first fits its objective."""
    from pellucid import config

    quoted_sentence = _quote(str(facts.get("sentence", run.config.training.sentence)))
    evaluate = f"pellucid evaluate {folder} PATH"
    match run.config.objective:
        case config.MLM():
            mask = run.require_tokenizer().roles().get("mask_token", "")
            sentence = shlex.quote(f"{run.config.training.sentence} {mask}")
            return [f"pellucid fill {folder} {sentence}", evaluate]
        case config.Seq2Seq():
            return [f"pellucid translate {folder} {quoted_sentence}", evaluate]
        case config.SpanCorruption():
            tune = f"pellucid train --objective seq2seq --from {folder} PATH"
            return [tune, f"pellucid evaluate {folder}"]
        case config.Classification():
            return [f"pellucid classify {folder} {quoted_sentence}", evaluate]
        case config.SFT() | config.DPO() | config.PolicyGradient():
            return [f"pellucid answer {folder} {quoted_sentence}", evaluate]
        case config.NextToken() | config.Distillation():
            return [
                f"pellucid generate {folder} --prompt {quoted_sentence}",
                f"pellucid explain {folder} {quoted_sentence}",
                evaluate,
            ]


def _quote(text: str) -> str:
    """The text as one word of a command if it is short enough to type; else TEXT."""
    return shlex.quote(text) if text and text == shorten(text) else "TEXT"


def _sample(run: Run, facts: dict[str, Any]) -> list[str]:
    from pellucid import runs
    from pellucid.generation import Sampling

    sentence = run.config.training.sentence
    sampling = Sampling(max_new_tokens=160, temperature=0.6, top_k=50, seed=run.config.seed)
    (sample,) = runs.generate(run, sentence, sampling)
    bits = facts.get("held_out_bits_per_byte")
    held_out = "" if bits is None else f": {bits:.4f} bits per byte on held-out text"
    return [
        f"a sample, at temperature 0.6{held_out}",
        "",
        *(f"    {line}" for line in _lines_of(sentence + sample.text)),
        "",
    ]


def _lines_of(sample: str) -> list[str]:
    """The lines of a text, folded between words on a terminal; of several blank ones the first."""
    from pellucid.display import folded, visible

    every = [visible(line).rstrip() for line in sample.splitlines()]
    lines = [line for before, line in pairwise(["#", *every]) if before or line]
    if not sys.stdout.isatty():
        return lines
    columns = max(shutil.get_terminal_size().columns - 4, 20)
    return [part for line in lines for part in folded(line, columns) or [""]]
