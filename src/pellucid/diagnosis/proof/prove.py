"""Proof: every fix is tried on forks of the run, against the same forks without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.checkpoints import load as load_checkpoint
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.fixes.propose import Fix, apply_assignments, propose_fixes
from pellucid.diagnosis.proof.fork import Fork, Origin, run_fork
from pellucid.diagnosis.proof.fork_start import Start, choose_start
from pellucid.diagnosis.proof.patched_config import write_fixed
from pellucid.diagnosis.proof.verdict import Proof, Trial
from pellucid.disk import check_output
from pellucid.errors import CheckpointError, ConfigError
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.saved_runs.machine import machine_changes
from pellucid.saved_runs.records import read_events
from pellucid.tasks.rewards import check_same_reward, find_reward
from pellucid.training import generator_states, restore_generators

#: Far apart, so that no seed of a fork is that of a run nearby.
_NEXT_SEED = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """How far a proof has come: fork `number` of `of`, and `done` of its updates."""

    number: int
    of: int
    what: str
    done: int
    steps: int
    seconds_left: float | None
    #: The fork, once it has ended.
    fork: Fork | None = None


Advances = Callable[[Advance], None]


def prove(
    path: str | Path,
    findings: Sequence[Finding],
    *,
    steps: int = 100,
    seeds: int = 3,
    candidates: int = 3,
    reward: str | None = None,
    out: str | Path | None = None,
    advance: Advances = lambda advance: None,
) -> Proof:
    """Try what is prescribed for the findings on forks of a run, each against an unfixed one.

    Args:
        path: the run's folder, which is only read.
        findings: what was found in it, the worst and most confident first.
        steps: the updates of each fork, at least.
        seeds: how many pairs of forks a fix is tried on: orders of the data, and first weights.
        candidates: how many fixes are tried.
        reward: the reward that the run is trained for, where it is.
        out: where the patched config goes; beside the run's folder by default.
        advance: called as forks advance.

    Raises:
        ConfigError: fewer than 2 seeds or 1 candidate, or a reward that is missing.
        RunError: there is no run, or this machine has not its device.
    """
    for name, value, least in (
        ("steps", steps, 1),
        ("seeds", seeds, 2),
        ("candidates", candidates, 1),
    ):
        if value < least:
            raise ConfigError(f"--{name} must be at least {least}, was {value}")
    if out is not None:
        check_output(Path(out))
    folder, _ = existing_folder(Path(path))
    run, plan = read_config(folder), read_plan(folder)
    machine_changes(plan)  # for its refusal
    check_same_reward(run.objective, folder, reward)
    origin = Origin(folder=folder, run=run, plan=plan, reward=find_reward(run.objective, reward))
    tried, untried = _candidates(findings, run, candidates)
    start = choose_start(
        read_events(folder.metrics), findings, folder.shelf.steps(), steps, plan.total_steps
    )
    states = generator_states()
    try:
        forks = _Forks(origin, start, seeds, advance)
        trials = forks.trials(tried)
    finally:
        restore_generators(*states)
    proof = Proof(
        run=str(folder.path),
        trials=trials,
        untried=untried,
        incurable=tuple(
            dict.fromkeys(finding.code for finding in findings if not propose_fixes(finding, run))
        ),
        note=start.note if any(t.fix.needs == "replay" for t in trials) else "",
    )
    return write_fixed(proof, folder, run, start.step, reward=reward, out=out)


Candidate = tuple[Fix, tuple[str, ...]]


def _candidates(
    findings: Sequence[Finding], run: config.Run, n_candidates: int
) -> tuple[list[Candidate], tuple[tuple[Fix, str], ...]]:
    """What to try, with the codes it is for, and what forks cannot try, with why.

    The second fix for the first finding comes before the first one for the third.
    """
    ranked: list[tuple[int, int, Fix]] = [
        (i + j, i, fix)
        for i, finding in enumerate(findings)
        for j, fix in enumerate(propose_fixes(finding, run))
    ]
    codes: dict[tuple[str, ...], list[str]] = {}
    by_assignments: dict[tuple[str, ...], Fix] = {}
    for _, i, fix in sorted(ranked, key=lambda item: item[:2]):
        by_assignments.setdefault(fix.assignments, fix)
        codes.setdefault(fix.assignments, []).append(findings[i].code)
    tried: list[Candidate] = []
    untried: list[tuple[Fix, str]] = []
    for key, fix in by_assignments.items():
        why = _incomparable(run, apply_assignments(run, fix.assignments))
        if why:
            untried.append((fix, why))
        elif len(tried) < n_candidates:
            tried.append((fix, tuple(dict.fromkeys(codes[key]))))
    return tried, tuple(untried)


def _incomparable(run: config.Run, fixed: config.Run) -> str:
    """Why forks of the two cannot be compared; empty where they can."""
    if fixed.text != run.text:
        return "the text would have to be prepared anew, and forks read what is prepared"
    if fixed.training.documents_apart != run.training.documents_apart:
        return "it changes what the held-out loss is measured on, so that losses do not compare"
    return ""


class _Forks:
    """Runs the forks of a proof; an unfixed one serves every fix that begins where it did."""

    def __init__(self, origin: Origin, start: Start, seeds: int, advance: Advances) -> None:
        self._origin = origin
        self._start = start
        self._seeds = [(origin.run.seed + i * _NEXT_SEED) % 2**63 for i in range(seeds)]
        self._advance = advance
        self._unfixed: dict[tuple[int, int], Fork] = {}
        self._checkpoint = _read(origin.folder, start.step)
        #: when the first update was done: what comes before it (imports, reading) comes once
        self._first: float | None = None
        self._number = self._updates = self._of = self._all_updates = 0

    def trials(self, tried: Sequence[Candidate]) -> tuple[Trial, ...]:
        """Every fix on every seed."""
        starts = [self._from(fix) for fix, _ in tried]
        plain = [steps for _, steps in set(starts)]
        self._of = (len(starts) + len(plain)) * len(self._seeds)
        self._all_updates = (sum(steps for _, steps in starts) + sum(plain)) * len(self._seeds)
        return tuple(
            Trial(fix=fix, codes=codes, pairs=tuple(self._pairs(fix))) for fix, codes in tried
        )

    def _from(self, fix: Fix) -> tuple[int, int]:
        """After which update, and for how many, a fix is tried."""
        if fix.needs == "restart":
            return 0, self._start.fresh_steps
        return self._start.step, self._start.steps

    def _pairs(self, fix: Fix) -> Iterator[tuple[Fork, Fork]]:
        start, steps = self._from(fix)
        fixed = apply_assignments(self._origin.run, fix.assignments)
        for seed in self._seeds:
            if (start, seed) not in self._unfixed:
                self._unfixed[start, seed] = self._fork(
                    self._origin.run, "unfixed", start, steps, seed
                )
            yield (
                self._unfixed[start, seed],
                self._fork(fixed, fix.does, start, steps, seed),
            )

    def _fork(self, run: config.Run, label: str, start: int, steps: int, seed: int) -> Fork:
        self._number += 1

        def tell(done: int, fork: Fork | None = None) -> None:
            self._advance(
                Advance(
                    number=self._number,
                    of=self._of,
                    what=f"{label}, seed {seed}",
                    done=done,
                    steps=steps,
                    seconds_left=self._seconds_left(done),
                    fork=fork,
                )
            )

        tell(0)
        fork = run_fork(
            self._origin,
            replace(run, seed=seed),
            self._checkpoint if start else None,
            steps=steps,
            tick=tell,
        )
        tell(fork.steps, fork)
        self._updates += steps
        return fork

    def _seconds_left(self, done: int) -> float | None:
        """By the time that updates took since the first one; None before there are two."""
        updates, time_now = self._updates + done, time.perf_counter()
        if updates and self._first is None:
            self._first = time_now
        if updates < 2 or self._first is None:
            return None
        return (time_now - self._first) / (updates - 1) * max(0, self._all_updates - updates)


def _read(folder: RunFolder, step: int) -> Checkpoint | None:
    if not step:
        return None
    checkpoint = load_checkpoint(folder.shelf.path(step))
    if not all(bool(tensor.isfinite().all()) for tensor in checkpoint.model.values()):
        raise CheckpointError(
            f"{folder.shelf.path(step)} holds weights that are not finite: no fork can go on from "
            "it; with an earlier checkpoint, name that one in checkpoints/latest"
        )
    return checkpoint
