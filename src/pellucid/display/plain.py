"""A run as plain lines: for logs, pipes and terminals that cannot redraw.

Comes in: events. Goes out: one flushed line each, the same facts as the live panel's. It does not
know where the events come from.
"""

from __future__ import annotations

from typing import TextIO

from pellucid.display.numbers import duration, short, size
from pellucid.training import events


class PlainLines:
    """An observer that writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: events.Event) -> None:
        for line in lines_of(event):
            print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left to do."""


def lines_of(event: events.Event) -> list[str]:
    """What an event says, in lines."""
    match event:
        case events.Started():
            lines = [f"run {event.name}: {event.total_steps:,} steps"]
            return lines + [f"  {name:<12} {value}" for name, value in event.facts]
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
        case events.StepFinished():
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
    text = " ".join(event.continuation.split())
    return f'"{event.sentence}" → {tokens}  | …{text}'
