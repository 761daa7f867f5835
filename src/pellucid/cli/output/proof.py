"""Proof on the command line: its flags, its progress, its table, and the next command."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import STEPS, TRAININGS

if TYPE_CHECKING:
    from pellucid.diagnosis import Advance, Finding, Proof, Trial

_WIDTH = 80
#: How many signs the output lists by name.
_MAX_SIGNS = 3


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


def proof_lines(proof: Proof) -> list[str]:
    """A proof for people: the method, the result of each fix, and the recommendation."""
    lines, shown_reasons = _head(proof), set[str]()
    for number, trial in enumerate(proof.trials, start=1):
        lines += ["", *_trial_lines(number, trial, shown_reasons)]
        shown_reasons.add(trial.fix.reason)
    for fix, reason in proof.untried:
        lines += ["", *_filled(f"not tried: {fix.change}, for {reason}")]
    if proof.incurable:
        lines += ["", *_filled(f"no value of a config cures {', '.join(proof.incurable)}")]
    return [*lines, "", *_advice(proof)]


def _head(proof: Proof) -> list[str]:
    if not proof.trials:
        return ["proof: no fix changes only the config, so forks cannot try any"]
    pairs = proof.trials[0].pairs
    starts = sorted({pair[0].start for trial in proof.trials for pair in trial.pairs})
    origins = " and ".join("its start" if step == 0 else f"update {step}" for step in starts)
    lengths = sorted({pair[0].steps for trial in proof.trials for pair in trial.pairs})
    long = " or ".join(map(str, lengths))
    text = (
        f"proof: each fix was tried on {len(pairs)} forks of {proof.run}, from {origins}, {long} "
        "updates long, against the same forks without it"
    )
    return _filled(text) + (_filled(proof.note) if proof.note else [])


def _trial_lines(number: int, trial: Trial, shown_reasons: set[str]) -> list[str]:
    """A fix and its result; the reason appears only once."""
    from pellucid.display.numbers import duration

    lines = [f"{number}  {trial.fix.change}: {trial.verdict}"]
    lines += _filled(f"{trial.words}; {duration(trial.seconds)}", "   ")
    for words, signs in (
        ("sick no more", trial.cured),
        ("newly sick", trial.caught),
        ("still sick", trial.still_sick - trial.caught),
    ):
        if signs:
            lines += _filled(f"{words}: {_signs(trial, sorted(signs))}", "   ")
    if trial.fix.reason not in shown_reasons:
        lines += _filled(f"for {', '.join(trial.codes)}: {trial.fix.reason}", "   ")
    return lines + [f"   --set {shlex.quote(assignment)}" for assignment in trial.fix.assignments]


def _signs(trial: Trial, ids: Sequence[str]) -> str:
    """The signs with their values without and with the fix, in the first pair that has both."""
    texts = [_sign(trial, id) for id in ids[:_MAX_SIGNS]]
    return ", ".join(texts) + (
        f" and {len(ids) - _MAX_SIGNS} more" if len(ids) > _MAX_SIGNS else ""
    )


def _sign(trial: Trial, id: str) -> str:
    for unfixed, fixed in trial.pairs:
        if id in unfixed.signs and id in fixed.signs:
            return f"{id} {unfixed.signs[id].value:.3g} -> {fixed.signs[id].value:.3g}"
    return id


def _advice(proof: Proof) -> list[str]:
    best = proof.best
    if best is None:
        result = "None of these fixes helped" if proof.trials else "Nothing was tried"
        advice = f"{result}, so pellucid recommends none. The findings remain."
        if proof.trials:
            advice += (
                " More updates (--prove-steps) may tell more, and other fixes (--prove-fixes)."
            )
        return _filled(advice)
    sick = (
        f" {len(best.still_sick)} signs are sick even so: diagnose the new run too."
        if best.still_sick
        else ""
    )
    n = best.pairs[0][1].steps
    return [
        *_filled(f"recommended: {best.fix.change}. {best.words.capitalize()}.{sick}"),
        *_filled(
            f"This holds for {n} updates; it does not tell how a long training ends. "
            f"The whole config is in {proof.file}. To train with it:"
        ),
        f"  {proof.command}",
    ]


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + ("" if indent else "  "),
        break_long_words=False,
        break_on_hyphens=False,
    )
