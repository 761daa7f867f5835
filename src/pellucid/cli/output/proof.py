"""Proof on the command line: its flags and its progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import STEPS, TRAININGS

if TYPE_CHECKING:
    from pellucid.diagnosis import Advance, Finding, Proof


def add_prove_flags(parser: Any) -> None:
    """Add the settings of a proof; the verb itself adds `--prove`."""
    group = parser.add_argument_group("proof")
    group.add_argument(
        "--prove-steps",
        type=STEPS,
        default=100,
        metavar="N",
        help="updates of a fork (100)",
    )
    group.add_argument(
        "--prove-seeds",
        type=TRAININGS,
        default=3,
        metavar="N",
        help="pairs for each fix (3)",
    )
    group.add_argument(
        "--prove-fixes", type=TRAININGS, default=3, metavar="N", help="fixes to try (default: 3)"
    )
    group.add_argument(
        "--prove-out", metavar="FILE", help="the patched config (default: RUN-fixed.toml)"
    )


def prove_fixes(arguments: argparse.Namespace, path: str, findings: Sequence[Finding]) -> Proof:
    """Try fixes on forks of a run, and show the progress."""
    from pellucid.diagnosis import prove

    progress = Progress(as_json=arguments.json)
    try:
        return prove(
            path,
            findings,
            steps=arguments.prove_steps,
            seeds=arguments.prove_seeds,
            candidates=arguments.prove_fixes,
            reward=getattr(arguments, "reward", None),
            out=arguments.prove_out,
            advance=progress,
        )
    finally:
        progress.close()


class Progress:
    """A line for each fork when it has ended; on a terminal also one that counts its updates."""

    def __init__(self, *, as_json: bool) -> None:
        from rich.console import Console

        from pellucid.display.backend import can_redraw

        self._stream = sys.stderr if as_json else sys.stdout
        self._lively = can_redraw(Console(file=self._stream), self._stream)
        self._silent = as_json and not self._lively
        self._open = False

    def __call__(self, advance: Advance) -> None:
        """Show how far a fork is."""
        if self._silent:
            return
        head = f"fork {advance.number}/{advance.n_forks}  {advance.label}"
        if advance.fork is not None:
            self._line(f"{head}: {_ended(advance)}")
        elif self._lively:
            self._line(
                f"{head}: update {advance.step}/{advance.steps}{_format_eta(advance)}", ended=False
            )

    def close(self) -> None:
        """Leave no half line behind."""
        if self._open:
            print("\r\x1b[2K", end="", file=self._stream, flush=True)
            self._open = False

    def _line(self, text: str, *, ended: bool = True) -> None:
        self.close()
        print(text, end="\n" if ended else "", file=self._stream, flush=True)
        self._open = not ended


def _ended(advance: Advance) -> str:
    assert advance.fork is not None
    fork = advance.fork
    outcome = f"not finite ({fork.stopped})" if fork.loss is None else f"held-out {fork.loss:.3f}"
    return f"{outcome}, {len(fork.sick)} sick{_format_eta(advance)}"


def _format_eta(advance: Advance) -> str:
    from pellucid.display.numbers import duration

    seconds_left = advance.seconds_left
    return (
        ""
        if seconds_left is None or advance.number == advance.n_forks
        else f", eta {duration(seconds_left)}"
    )
