"""A run as plain lines: for logs, pipes and terminals that cannot redraw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from pellucid.display.example import example_lines
from pellucid.display.metric_labels import guessing, measured, nats_per, news
from pellucid.display.numbers import duration, short, size
from pellucid.display.terminal_text import one_line, visible
from pellucid.display.vital_rows import Changes
from pellucid.training import events


class PlainLines:
    """An observer that writes lines to a stream, each after a prefix."""

    def __init__(self, stream: TextIO, *, prefix: str = "") -> None:
        self._stream = stream
        self._prefix = visible(prefix)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._changes = Changes()
        self._is_closed = False
        #: called once if the reader of the stream has ended, such as `head` after its lines
        self.when_unread: Callable[[], None] = _nothing

    def __call__(self, event: events.Event) -> None:
        """Print the lines of an event."""
        if self._is_closed:
            return
        try:
            for line in self._lines_of(event):
                # a character that the stream lacks (an arrow on an old console) must not stop a run
                encodable = (
                    (self._prefix + line).encode(self._encoding, "replace").decode(self._encoding)
                )
                print(encodable, file=self._stream, flush=True)
        except BrokenPipeError:
            self._is_closed = True
            self.when_unread()
        except OSError:  # the terminal has gone, or the log's disk is full; the run continues
            self._is_closed = True

    def close(self) -> None:
        """Do nothing: all lines are written."""

    def _lines_of(self, event: events.Event) -> list[str]:
        if isinstance(event, events.Vitals):
            return [visible(line) for line in self._changes.lines(event)]
        return lines_of(event)


def _nothing() -> None:
    """What a stream without a reader asks for by default."""


def lines_of(event: events.Event) -> list[str]:
    """An event as lines of text."""
    return [visible(line) for line in _lines_of(event)]


def _lines_of(event: events.Event) -> list[str]:
    match event:
        case events.Preparing():
            return [f"{event.what} …"]
        case events.Started():
            lines = [f"run {event.name}: {event.total_steps:,} steps"]
            facts = list(event.facts)
            if event.guessing_nats is not None:
                facts.append(("guessing", guessing(event.guessing_nats, event.unit)))
            return lines + [f"  {name:<12} {value}" for name, value in facts]
        case events.Example():
            return example_lines(event)
        case events.Resumed():
            return [f"resumed after step {event.step}/{event.total_steps} from {event.checkpoint}"]
        case events.Drifted():
            return [drift_line(event)]
        case events.Noticed():
            return [f"note: {event.text}"]
        case events.Logged():
            return [logged_line(event)]
        case events.Evaluated():
            return [evaluated_line(event)]
        case events.Sampled():
            return [f"step {event.step} {sentence_line(event)}"]
        case events.CheckpointSaved():
            return [f"step {event.step} saved {event.path}"]
        case events.Finished():
            return [f"finished after step {event.step} in {duration(event.seconds)}"]
        case events.Interrupted():
            signal = f" by {event.signal}" if event.signal else ""
            state = f"step {event.step} is finished and saved" if event.step else "nothing to save"
            return [f"interrupted{signal}: {state}"]
        case events.StoppedNonFinite():
            return [f"update {event.step + 1} was not finite: {event.what} of {event.where}"]
        case events.StepFinished() | events.Vitals():
            return []


def drift_line(event: events.Drifted) -> str:
    """Every key whose value changes here, with both values."""
    changes = (
        f"{key} is {new_value}, was {old_value}" for key, old_value, new_value in event.changes
    )
    return f"from step {event.step} on, changed: {'; '.join(changes)}"


def logged_line(event: events.Logged) -> str:
    """Step, loss, rate, gradient norm (with * if it was clipped), speed, memory, time left."""
    norm = event.grad_norms[-1]
    clipped = "*" if event.clip_norm is not None and norm > event.clip_norm else ""
    share = 100 * event.step / event.total_steps
    per_second = "tok/s" if event.unit == "tokens" else f"{event.unit}/s"
    return (
        f"step {event.step}/{event.total_steps} {share:.1f}% loss {event.loss:.4f} "
        f"lr {event.learning_rate:.2e} grad {norm:.3g}{clipped} "
        f"{per_second} {short(event.tokens_per_second)} mem {size(event.memory_bytes)} "
        f"eta {duration(event.seconds_left)}{_ranks(event)}{_parts(event)}"
    )


def _ranks(event: events.Logged) -> str:
    """The slowest and the fastest rank, and the longest wait; nothing for one process."""
    if not event.ranks:
        return ""
    speeds = [speed for speed, *_ in event.ranks]
    waits = [wait for _, wait, _ in event.ranks if wait is not None]
    waiting = f", wait up to {max(waits):.1f}s" if waits else ""
    return f" ranks {short(min(speeds))} to {short(max(speeds))}{waiting}"


def _parts(event: events.Logged) -> str:
    """The parts of the loss for the panel, at the end of a line."""
    texts = [
        f"{part.label} {part.number(mean_of(values))}"
        for part, values in ((measured(name), values) for name, values in event.parts)
        if part.in_panel and values
    ]
    return f" | {', '.join(texts)}" if texts else ""


def mean_of(values: Sequence[float]) -> float:
    """The mean over the updates of a report, as for the loss."""
    return sum(values) / len(values)


def evaluated_line(event: events.Evaluated) -> str:
    """The held-out loss, and all other measures, the most informative first."""
    texts = [f"{event.loss_nats:.4f} {nats_per(event.unit)}"]
    texts += [measure.with_unit(value) for measure, value in news(event.measures)]
    best = " (best)" if event.best else ""
    return f"step {event.step} held-out loss {', '.join(texts)}{best}"


def sentence_line(event: events.Sampled) -> str:
    """The sentence, its likeliest next tokens, and its continuation."""
    tokens = "  ".join(f"{token!r} {p:.2f}" for token, p in event.next_tokens)
    return f'"{event.sentence}" → {tokens}  | …{one_line(event.continuation)}'
