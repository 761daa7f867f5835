"""What came of training, and what can be done with it now.

Comes in: events, and a finished run. Goes out: lines, or JSON. It does not know flags.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.texts import line
from pellucid.cli.output.streams import print_json

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Event

#: The words for a vital sign, the gravest last; empty where nothing was measured.
_WORDS = ("", "calm", "watch", "sick")


class Result:
    """An observer that keeps the last word on each thing."""

    def __init__(self, reward: str | None = None) -> None:
        self.again = "" if reward is None else f" --reward {shlex.quote(reward)}"
        self.facts: dict[str, Any] = {}
        self.resume_command = ""
        self.best = ""
        self.gravest: dict[str, str] = {}
        self.watching = ""

    def __call__(self, event: Event) -> None:
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
                self.resume_command = f"pellucid train --resume {shlex.quote(folder)}{self.again}"
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
                    self.gravest[name] = max(self.gravest.get(name, ""), word, key=_WORDS.index)
                self.watching = _cost(event.cost)
            case _:
                pass


def say_outcome(run: Run, result: Result, *, as_json: bool) -> None:
    """The last numbers, a sample, and the commands that come next."""
    if as_json:
        print_json(result.facts | {"run": str(run.folder), "checkpoint": str(run.checkpoint)})
    else:
        _say_what_next(run, result)


def _say_what_next(run: Run, result: Result) -> None:
    folder, facts = shlex.quote(str(run.folder)), result.facts
    lines = [""]
    if _goes_on(run):
        lines += _sample(run, facts)
    elif "sentence" in facts:
        lines += [
            f"what it makes of {line(str(facts['sentence']))!r}",
            "",
            *(f"    {line}" for line in _lines_of(facts["continuation"])),
            "",
        ]
    lines += words_of_vitals(result, folder)
    lines += [
        "what next",
        *(f"    {command}" for command in _commands(run, folder, facts)),
        f"    pellucid train --resume {folder}{result.again}",
        f"    pellucid verify-resume {folder}{result.again}",
    ]
    if result.best not in ("", str(run.checkpoint)):
        best = shlex.quote(result.best)
        lines += [
            "",
            "the held-out loss was lowest earlier: beyond that, the data were learnt by heart;",
            f"the best model is kept: {_commands(run, best, facts)[0]}",
        ]
    print("\n".join(lines))


def words_of_vitals(result: Result, folder: str) -> list[str]:
    """What was seen of the five equations, and what it took to see it."""
    if not result.gravest:
        return []
    current = result.facts["vitals"]
    abnormal = [
        f"{name} {'is' if current[name] == word else 'was'} {word}"
        for name, word in result.gravest.items()
        if word not in ("", "calm")
    ]
    lines = [f"vital signs: {', '.join(abnormal) or 'calm throughout'}", result.watching]
    if abnormal:
        lines += [
            "what is behind it, and the rules of the words",
            f"    pellucid diagnose {folder}",
            f"    pellucid vitals {folder} --why",
        ]
    return [*filter(None, lines), ""]


def _cost(cost: tuple[float, float, int] | None) -> str:
    """What watching took, where that is known."""
    if cost is None or not cost[1]:
        return ""
    from pellucid.vitals import Cost

    return Cost(*cost).told()


def _goes_on(run: Run) -> bool:
    """Whether the run writes on from any text, as it was trained to."""
    from pellucid import config

    return isinstance(run.config.objective, config.NextToken | config.Distillation)


def _commands(run: Run, folder: str, facts: dict[str, Any]) -> list[str]:
    """What can be done with a run; first what it was trained for."""
    from pellucid import config

    quoted_sentence = _word(str(facts.get("sentence", run.config.training.sentence)))
    evaluate = f"pellucid evaluate {folder} PATH"
    match run.config.objective:
        case config.MLM():
            mask = run.tokenizer.roles().get("mask_token", "")
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


def _word(text: str) -> str:
    """The text as one word of a command, where it is short enough to be typed; else TEXT."""
    return shlex.quote(text) if text and text == line(text) else "TEXT"


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
    """The lines of a text, folded between words on a terminal."""
    from pellucid.display import folded, visible

    lines = [visible(line) for line in sample.splitlines()]
    if not sys.stdout.isatty():
        return lines
    columns = max(shutil.get_terminal_size().columns - 4, 20)
    return [part for line in lines for part in folded(line, columns) or [""]]
