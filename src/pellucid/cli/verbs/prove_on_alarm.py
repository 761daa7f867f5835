"""`pellucid train --prove-on-alarm`: stop when a vital sign stays sick, and find out why.

When a vital sign stays sick or a value is not finite, pellucid stops the run as Ctrl-C does, and
nothing is lost. It names causes and tries fixes on forks. On a terminal you choose how to continue.
Without a terminal the run continues unchanged: an alarm may be false, and you choose the fixes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pellucid.cli.flags.run import observed, resume_training, watchers_for
from pellucid.cli.output.printing import can_ask
from pellucid.cli.output.proof import prove_fixes
from pellucid.cli.output.train_summary import TrainSummary, print_summary
from pellucid.errors import Interrupted, NonFiniteError

if TYPE_CHECKING:
    from pellucid.diagnosis import Finding, Proof
    from pellucid.runs import Run
    from pellucid.training import Event, Interrupts, Observer

#: How many sick readings in a row give the alarm; a diagnosis needs as many.
_LASTING = 3

Begin = Callable[..., "Run"]


class Alarm:
    """An observer that stops its run once a sign stays sick."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self.folder = ""
        #: the reason of the alarm; empty while all is well
        self.reason = ""
        self._rows: dict[str, tuple[int, int]] = {}

    def __call__(self, event: Event) -> None:
        """Keep the folder, and the first alarm of each sign."""
        from pellucid.training import Resumed, Started, StoppedNonFinite, Vitals

        match event:
            case Started() | Resumed():
                self.folder = event.folder
            case Vitals():
                for id, _, value, word, step, part in event.signs:
                    self._take(id, value, word == "sick", step, part)
            case StoppedNonFinite():
                self.reason = f"{event.what} of {event.where} is not finite"
            case _:
                pass

    def _take(self, id: str, value: float, sick: bool, step: int, part: str) -> None:
        last, row = self._rows.get(id, (-1, 0))
        if step == last:
            return  # an older reading, repeated
        row = row + 1 if sick else 0
        self._rows[id] = (step, row)
        if row == _LASTING and not self.reason:
            place = f" in {part}" if part else ""
            self.reason = f"{id} stays sick ({value:.3g}{place}) at update {step}"
            self.interrupts.asked = True


@dataclass(frozen=True, slots=True)
class _Diagnosis:
    findings: Sequence[Finding]
    proof: Proof | None


def train_with_alarm(arguments: argparse.Namespace, begin: Begin) -> None:
    """Start a run; at its first alarm diagnose it, prove fixes, and ask how to continue."""
    from pellucid.extras import import_extra
    from pellucid.training import Interrupts

    import_extra("lab", "scipy.stats")  # a proof needs it, perhaps hours from now
    alarm = Alarm(Interrupts())
    with observed(arguments) as (result, observers):
        try:
            run = begin(arguments, [*observers, alarm], alarm.interrupts)
        except Interrupted:
            if not alarm.reason:
                raise
            run = _continue(arguments, alarm, result, observers)
        except NonFiniteError as error:
            run = _past_non_finite(arguments, alarm, result, observers, error)
    print_summary(arguments, run, result)


def _continue(
    arguments: argparse.Namespace, alarm: Alarm, result: TrainSummary, observers: Sequence[Observer]
) -> Run:
    usual = arguments.when_stopped
    arguments.when_stopped = (
        f"at once; the run is saved, and continues with: {_command(alarm, result)}"
    )
    diagnosis = _diagnose(arguments, alarm, result)
    choice = _choose(arguments, diagnosis.proof, can_continue=True)
    arguments.when_stopped = usual
    if choice == "stop":
        raise Interrupted("stopped at the alarm; the state is saved")
    if choice == "fix" and diagnosis.proof is not None:
        return _with_fix(arguments, diagnosis.proof, observers)
    _print(arguments, ["", "the run continues unchanged; no other alarm will stop it"])
    return resume_training(arguments, alarm.folder, observers)


def _past_non_finite(
    arguments: argparse.Namespace,
    alarm: Alarm,
    result: TrainSummary,
    observers: Sequence[Observer],
    error: NonFiniteError,
) -> Run:
    """A run with a value that is not finite continues only with a fix."""
    diagnosis = _diagnose(arguments, alarm, result)
    if (
        _choose(arguments, diagnosis.proof, can_continue=False) == "fix"
        and diagnosis.proof is not None
    ):
        return _with_fix(arguments, diagnosis.proof, observers)
    best = None if diagnosis.proof is None else diagnosis.proof.best
    if best is None or diagnosis.proof is None:
        raise error
    raise NonFiniteError(
        f"{error}. On forks of the run, {best.fix.change} helped ({best.words}): "
        f"{diagnosis.proof.command}"
    ) from None


def _diagnose(arguments: argparse.Namespace, alarm: Alarm, result: TrainSummary) -> _Diagnosis:
    """Name causes and try fixes; print both, and keep them for JSON."""
    from dataclasses import asdict

    from pellucid.diagnosis import diagnose, history_of_run
    from pellucid.display import folded

    message = f"alarm: {alarm.reason}; the run has stopped, and its state is saved"
    _print(arguments, ["", *folded(message, 80)])
    findings = diagnose(history_of_run(alarm.folder))
    _print(arguments, [line for finding in findings for line in ("", finding.text())])
    result.facts |= {"alarm": alarm.reason, "findings": [asdict(finding) for finding in findings]}
    if not findings:
        _print(arguments, ["", "pellucid found no cause"])
        return _Diagnosis(findings, None)
    _print(arguments, [""])
    proof = prove_fixes(arguments, alarm.folder, findings)
    result.facts["proof"] = proof.record()
    _print(arguments, ["", proof.text(), "", "to continue unchanged:"])
    _print(arguments, [f"  {_command(alarm, result)}"])
    return _Diagnosis(findings, proof)


def _command(alarm: Alarm, result: TrainSummary) -> str:
    """The command that continues the run unchanged."""
    return f"pellucid train --resume {alarm.folder}{result.reward_flag}"


Choice = Literal["fix", "as it was", "stop"]


def _choose(arguments: argparse.Namespace, proof: Proof | None, *, can_continue: bool) -> Choice:
    """Ask on a terminal; elsewhere continue unchanged, or stop if that is impossible."""
    default: Choice = "as it was" if can_continue else "stop"
    choices: dict[str, Choice] = {}
    if proof is not None and proof.best is not None:
        choices["f"] = "fix"
    if can_continue:
        choices["a"] = "as it was"
    choices["s"] = "stop"
    unattended = arguments.json or not can_ask()
    if unattended or len(choices) == 1 or proof is None:
        return default
    words = {
        "fix": "continue with the [f]ix",
        "as it was": "continue [a]s it was",
        "stop": "[s]top",
    }
    question = ", ".join(words[choice] for choice in choices.values())
    while True:
        try:
            reply = input(f"\n{question}? ").strip().lower()[:1]
        except EOFError:
            return default
        if reply in choices:
            return choices[reply]


def _with_fix(arguments: argparse.Namespace, proof: Proof, observers: Sequence[Observer]) -> Run:
    """Continue with the best fix, as the command of the proof does."""
    from pellucid import runs
    from pellucid.runs.resolve_config import resolve_config

    run = resolve_config(config_file=proof.file)
    if proof.checkpoint:
        fixed_folder = proof.file.removesuffix(".toml")
        return resume_training(
            arguments, str(runs.branch(proof.checkpoint, run, fixed_folder)), observers
        )
    return runs.train_config(
        run,
        name=proof.file.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".toml"),
        reward=getattr(arguments, "reward", None),
        observers=observers,
        watchers=watchers_for(arguments),
        show=not arguments.json,
    )


def _print(arguments: Any, lines: Sequence[str]) -> None:
    if not arguments.json:
        print("\n".join(lines), flush=True)
