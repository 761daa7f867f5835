"""`pellucid train --prove-on-alarm`: a run that stops when a sign stays sick, and is told why.

Comes in: a run to be begun. Goes out: the finished run. When a vital sign stays sick or a value is
not finite, the run is stopped as by Ctrl-C (nothing is lost), causes are named, and fixes are tried
on forks. On a terminal the user chooses how to go on. Where nobody can be asked the run goes on as
it was: an alarm may be false, and a fix is the user's to take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pellucid.cli.flags.run import observed, watchers_for
from pellucid.cli.output.proof import proof_lines, prove_as_said
from pellucid.cli.output.train_summary import Result, say_outcome
from pellucid.errors import Interrupted, NonFiniteError

if TYPE_CHECKING:
    from pellucid.diagnosis import Finding, Proof
    from pellucid.runs import Run
    from pellucid.training import Event, Interrupts, Observer

#: So many readings of a sign in a row have to be sick, as a diagnosis wants them.
_LASTING = 3

Begin = Callable[..., "Run"]


class Alarm:
    """An observer that stops its run once a sign stays sick."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self.folder = ""
        #: what gave the alarm, in words; empty while all is well
        self.why = ""
        self._rows: dict[str, tuple[int, int]] = {}

    def __call__(self, event: Event) -> None:
        from pellucid.training import Resumed, Started, StoppedNonFinite, Vitals

        match event:
            case Started() | Resumed():
                self.folder = event.folder
            case Vitals():
                for id, _, value, word, step, where in event.signs:
                    self._take(id, value, word == "sick", step, where)
            case StoppedNonFinite():
                self.why = f"{event.what} of {event.where} is not finite"
            case _:
                pass

    def _take(self, id: str, value: float, sick: bool, step: int, where: str) -> None:
        last, row = self._rows.get(id, (-1, 0))
        if step == last:
            return  # an older reading, told again
        row = row + 1 if sick else 0
        self._rows[id] = (step, row)
        if row == _LASTING and not self.why:
            at = f" in {where}" if where else ""
            self.why = f"{id} stays sick ({value:.3g}{at}) at update {step}"
            self.interrupts.asked = True


@dataclass(frozen=True, slots=True)
class _Answer:
    findings: Sequence[Finding]
    proof: Proof | None


def train_with_alarm(arguments: argparse.Namespace, begin: Begin) -> None:
    """Begin a run; at its first alarm, diagnose it, prove fixes, and go on as is chosen."""
    from pellucid.training import Interrupts

    alarm = Alarm(Interrupts())
    with observed(arguments) as (result, observers):
        try:
            run = begin(arguments, [*observers, alarm], alarm.interrupts)
        except Interrupted:
            if not alarm.why:
                raise
            run = _go_on(arguments, alarm, result, observers)
        except NonFiniteError as error:
            run = _past_non_finite(arguments, alarm, result, observers, error)
    say_outcome(run, result, as_json=arguments.json)


def _go_on(
    arguments: argparse.Namespace, alarm: Alarm, result: Result, observers: Sequence[Observer]
) -> Run:
    usual = arguments.when_stopped
    arguments.when_stopped = (
        f"at once; the run is saved, and goes on with: {_command(alarm, result)}"
    )
    answer = _answer(arguments, alarm, result)
    choice = _choose(arguments, answer.proof, can_go_on=True)
    arguments.when_stopped = usual
    if choice == "stop":
        raise Interrupted("stopped at the alarm; the state is saved")
    if choice == "fix" and answer.proof is not None:
        return _with_fix(arguments, answer.proof, observers)
    _say(arguments, ["", "the run goes on as it was; it is not stopped for an alarm again"])
    return _resume(arguments, alarm.folder, observers)


def _past_non_finite(
    arguments: argparse.Namespace,
    alarm: Alarm,
    result: Result,
    observers: Sequence[Observer],
    error: NonFiniteError,
) -> Run:
    """As it was the run cannot go on; with a fix it can."""
    answer = _answer(arguments, alarm, result)
    if _choose(arguments, answer.proof, can_go_on=False) == "fix" and answer.proof is not None:
        return _with_fix(arguments, answer.proof, observers)
    best = None if answer.proof is None else answer.proof.best
    if best is None or answer.proof is None:
        raise error
    raise NonFiniteError(
        f"{error}. On forks of the run, {best.fix.does} helped ({best.words}): "
        f"{answer.proof.command}"
    ) from None


def _answer(arguments: argparse.Namespace, alarm: Alarm, result: Result) -> _Answer:
    """Name causes and try fixes; both are told, and kept for JSON."""
    from dataclasses import asdict

    from pellucid.diagnosis import diagnose, history_of_run
    from pellucid.display import folded

    message = f"alarm: {alarm.why}; the run is stopped, and its state is saved"
    _say(arguments, ["", *folded(message, 80)])
    findings = diagnose(history_of_run(alarm.folder))
    _say(arguments, [line for finding in findings for line in ("", finding.text())])
    result.facts |= {"alarm": alarm.why, "findings": [asdict(finding) for finding in findings]}
    if not findings:
        _say(arguments, ["", "no cause was found that would explain it"])
        return _Answer(findings, None)
    _say(arguments, [""])
    proof = prove_as_said(arguments, alarm.folder, findings)
    result.facts["proof"] = proof.record()
    _say(arguments, ["", *proof_lines(proof), "", "to go on as it was:"])
    _say(arguments, [f"  {_command(alarm, result)}"])
    return _Answer(findings, proof)


def _command(alarm: Alarm, result: Result) -> str:
    """How the run goes on as it was."""
    return f"pellucid train --resume {alarm.folder}{result.again}"


Choice = Literal["fix", "as it was", "stop"]


def _choose(arguments: argparse.Namespace, proof: Proof | None, *, can_go_on: bool) -> Choice:
    """Ask, where somebody is there; else go on as it was, or stop where that cannot be."""
    default: Choice = "as it was" if can_go_on else "stop"
    choices: dict[str, Choice] = {}
    if proof is not None and proof.best is not None:
        choices["f"] = "fix"
    if can_go_on:
        choices["a"] = "as it was"
    choices["s"] = "stop"
    alone = arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty())
    if alone or len(choices) == 1 or proof is None:
        return default
    words = {"fix": "go on with the [f]ix", "as it was": "go on [a]s it was", "stop": "[s]top"}
    question = ", ".join(words[choice] for choice in choices.values())
    while True:
        try:
            reply = input(f"\n{question}? ").strip().lower()[:1]
        except EOFError:
            return default
        if reply in choices:
            return choices[reply]


def _with_fix(arguments: argparse.Namespace, proof: Proof, observers: Sequence[Observer]) -> Run:
    """What the proof's command would do."""
    from pellucid import runs
    from pellucid.runs.resolve_config import resolve_config

    run = resolve_config(config_file=proof.file)
    if proof.checkpoint:
        out = proof.file.removesuffix(".toml")
        return _resume(arguments, str(runs.branch(proof.checkpoint, run, out)), observers)
    return runs.train_config(
        run,
        name=proof.file.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".toml"),
        reward=getattr(arguments, "reward", None),
        observers=observers,
        watchers=watchers_for(arguments),
        show=not arguments.json,
    )


def _resume(arguments: argparse.Namespace, folder: str, observers: Sequence[Observer]) -> Run:
    from pellucid import runs

    return runs.resume(
        folder,
        steps=arguments.steps,
        reward=getattr(arguments, "reward", None),
        observers=observers,
        watchers=watchers_for(arguments),
        show=not arguments.json,
        allow_drift=arguments.allow_drift,
    )


def _say(arguments: Any, lines: Sequence[str]) -> None:
    if not arguments.json:
        print("\n".join(lines), flush=True)
