"""A run as one live panel: a curve, the numbers, the sentence that learns to speak.

Comes in: events. Goes out: a panel of at most 80 columns, redrawn four times a second at most. It
does not know where the events come from: `pellucid attach` feeds it from a file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

from pellucid.display.curve import braille
from pellucid.display.numbers import duration, short, size
from pellucid.display.plain import lines_of
from pellucid.training import events

_CURVE_COLUMNS, _CURVE_ROWS = 34, 7


class Panel:
    """An observer that keeps one panel on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._drawn = 0.0
        self._losses: list[float] = []
        self._before: float | None = None
        self._started: events.Started | None = None
        self._logged: events.Logged | None = None
        self._evaluated: events.Evaluated | None = None
        self._best: events.Evaluated | None = None
        self._first: events.Sampled | None = None
        self._sampled: events.Sampled | None = None
        self._note = ""

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Started():
                self._started = event
                for line in lines_of(event):
                    self._console.print(line, highlight=False, markup=False)
            case events.Resumed() | events.Interrupted() | events.StoppedNonFinite():
                self._note = lines_of(event)[0]
            case events.Logged():
                self._before = self._logged.loss if self._logged else None
                self._losses += event.losses
                self._logged = event
                self._note = "" if self._note.startswith("resumed") else self._note
            case events.Evaluated():
                self._evaluated = event
                self._best = event if event.best else self._best
            case events.Sampled():
                self._first = self._first or event
                self._sampled = event
            case events.CheckpointSaved():
                self._note = f"saved {event.path}"
            case events.Finished():
                self._note = lines_of(event)[0]
            case events.StepFinished():
                return
        self._draw(final=isinstance(event, events.Finished | events.Interrupted))

    def close(self) -> None:
        """Leave the last panel standing."""
        if self._live is not None:
            self._live.update(self._frame(), refresh=True)
            self._live.stop()
            self._live = None

    def _draw(self, *, final: bool) -> None:
        if self._logged is None and self._sampled is None:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        now = time.monotonic()
        # by time and not by step: a redraw costs about 2 ms whatever the speed of the run
        if final or now - self._drawn >= 0.25:
            self._live.update(self._frame(), refresh=True)
            self._drawn = now

    def _frame(self) -> Frame:
        step = self._logged.step if self._logged else 0
        total = self._started.total_steps if self._started else 0
        body = Table.grid(padding=(0, 2))
        curve = Text("\n".join(braille(self._losses, _CURVE_COLUMNS, _CURVE_ROWS)), style="cyan")
        body.add_row(curve, Text("\n".join(self._numbers())))
        parts: list[object] = [body]
        if self._sampled is not None:
            parts += [Text(""), *_sentence(self._sampled, self._first)]
        if self._note:
            parts.append(Text(self._note, style="dim", overflow="ellipsis", no_wrap=True))
        title = escape(self._started.name) if self._started else "run"
        return Frame(
            Group(*parts),  # pyright: ignore[reportArgumentType]
            title=f"[bold]{title}[/]  step {step}/{total}",
            title_align="left",
            width=min(80, self._console.width),
        )

    def _numbers(self) -> Sequence[str]:
        lines: list[str] = []
        if self._logged is not None:
            logged, norm = self._logged, self._logged.grad_norms[-1]
            change = "" if self._before is None else f" {_arrow(logged.loss - self._before)}"
            clip = "–" if logged.clip_norm is None else f"{logged.clip_norm:g}"
            clipped = logged.clip_norm is not None and norm > logged.clip_norm
            lines += [
                f"train   {logged.loss:.4f} nats/token{change}",
                f"grad    {norm:.3g}{' clipped' if clipped else ''}  (clip {clip})",
                f"rate    {logged.learning_rate:.2e}",
                f"speed   {short(logged.tokens_per_second)} tokens/s",
                f"memory  {size(logged.memory_bytes)}   left {duration(logged.seconds_left)}",
            ]
        if self._evaluated is not None:
            best = self._best or self._evaluated
            lines.insert(
                0,
                f"held-out {self._evaluated.bits_per_byte:.4f} bits/byte "
                f"(best {best.bits_per_byte:.4f} @{best.step})",
            )
        if self._started is not None:
            lines.append(f"guessing {self._started.guessing_nats:.2f} nats/token = ln V")
        return lines


def _arrow(change: float) -> str:
    return f"{'▼' if change <= 0 else '▲'}{abs(change):.3f}"


def _sentence(now: events.Sampled, first: events.Sampled | None) -> list[Text]:
    tokens = "  ".join(f"{token!r} {p:.2f}" for token, p in now.next_tokens)
    lines = [Text.assemble((f'"{now.sentence}"', "bold"), f" → {tokens}")]
    text = " ".join(now.continuation.split())
    lines.append(Text(f"…{text}", style="green", overflow="ellipsis", no_wrap=True))
    if first is not None and first.step != now.step:
        then = " ".join(first.continuation.split())
        line = f"step {first.step}: …{then}"
        lines.append(Text(line, style="dim", overflow="ellipsis", no_wrap=True))
    return lines
