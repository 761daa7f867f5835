"""A run as plain lines: for logs, pipes and terminals that cannot redraw.

Comes in: events. Goes out: one flushed line each, the same facts as the live panel's. It does not
know where the events come from.
"""

from __future__ import annotations

import io
import re
from typing import TextIO

from rich.console import Console
from rich.text import Text

from pellucid.display.numbers import duration, short, size
from pellucid.training import events


class PlainLines:
    """An observer that writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._gone = False

    def __call__(self, event: events.Event) -> None:
        if self._gone:
            return
        try:
            for line in lines_of(event):
                # what the stream cannot spell (an arrow, on an old console) must not stop a run
                spelled = line.encode(self._encoding, "replace").decode(self._encoding)
                print(spelled, file=self._stream, flush=True)
        except BrokenPipeError:  # whoever read along has left; the run goes on
            self._gone = True

    def close(self) -> None:
        """Nothing is left to do."""


def lines_of(event: events.Event) -> list[str]:
    """What an event says, in lines."""
    return [visible(line) for line in _lines_of(event)]


def visible(text: str) -> str:
    """The text with its control characters drawn (␛, ␊): none of them reaches a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: _drawn(ord(found[0])), text)


def _drawn(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def folded(text: str, columns: int) -> list[str]:
    """One line as lines of at most `columns` cells, broken between words where there are words."""
    lines = Text(text).wrap(Console(width=columns, file=io.StringIO()), columns, overflow="fold")
    return [line.plain.rstrip() for line in lines]


def one_line(text: str) -> str:
    """The text on one line: each run of white space becomes a blank."""
    return visible(" ".join(text.split()))


def _lines_of(event: events.Event) -> list[str]:
    match event:
        case events.Preparing():
            return [f"{event.what} …"]
        case events.Started():
            lines = [f"run {event.name}: {event.total_steps:,} steps"]
            facts = (*event.facts, ("guessing", f"{event.guessing_nats:.4f} nats/token = ln V"))
            return lines + [f"  {name:<12} {value}" for name, value in facts]
        case events.Resumed():
            return [f"resumed after step {event.step}/{event.total_steps} from {event.checkpoint}"]
        case events.Logged():
            return [logged_line(event)]
        case events.Evaluated():
            best = " (best)" if event.best else ""
            return [
                f"step {event.step} held-out loss {event.loss_nats:.4f} nats/token, "
                f"{event.bits_per_byte:.4f} bits/byte{best}"
            ]
        case events.Sampled():
            return [f"step {event.step} {sentence_line(event)}"]
        case events.CheckpointSaved():
            return [f"step {event.step} saved {event.path}"]
        case events.Finished():
            return [f"finished after step {event.step} in {duration(event.seconds)}"]
        case events.Interrupted():
            return [f"interrupted: step {event.step} is finished and saved"]
        case events.StoppedNonFinite():
            return [f"update {event.step + 1} was not finite: {event.what} of {event.where}"]
        case events.StepFinished() | events.Vitals():
            return []


def logged_line(event: events.Logged) -> str:
    """Step, loss, rate, gradient norm (with * where it was clipped), speed, memory, time left."""
    norm = event.grad_norms[-1]
    clipped = "*" if event.clip_norm is not None and norm > event.clip_norm else ""
    share = 100 * event.step / event.total_steps
    return (
        f"step {event.step}/{event.total_steps} {share:.1f}% loss {event.loss:.4f} "
        f"lr {event.learning_rate:.2e} grad {norm:.3g}{clipped} "
        f"tok/s {short(event.tokens_per_second)} mem {size(event.memory_bytes)} "
        f"eta {duration(event.seconds_left)}"
    )


def sentence_line(event: events.Sampled) -> str:
    """The sentence, its likeliest next tokens, and how it goes on."""
    tokens = "  ".join(f"{token!r} {p:.2f}" for token, p in event.next_tokens)
    return f'"{event.sentence}" → {tokens}  | …{one_line(event.continuation)}'
