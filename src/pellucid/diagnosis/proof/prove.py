"""Proof: test each fix on forks of the run, against the same forks without the fix."""

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

#: The distance of seeds, so large that forks share no seed with a neighbouring run.
_NEXT_SEED = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The progress of a proof: fork `number` of `n_forks`, update `step` of its `steps`.

    `fork` is its result, once it has ended.
    """

    number: int
    n_forks: int
    label: str
    step: int
    steps: int
    seconds_left: float | None
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
    """Test the fixes for findings on forks of a run, each against a fork without the fix.

    Args:
        path: the run's folder, which stays as it is.
        findings: its findings, the worst and most confident first.
        steps: the least number of updates of each fork.
        seeds: the pairs of forks for each fix, with other orders of the data and first weights.
        candidates: how many fixes to test.
        reward: the reward that the run is trained for, if it has one.
        out: the path of the patched config; by default next to the run's folder.
        advance: called as forks advance.

    Raises:
        ConfigError: fewer than 2 seeds or 1 candidate, or the reward is missing.
        RunError: there is no run, or this machine lacks its device.
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
    machine_changes(plan)  # it refuses a device that this machine lacks
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
        note=start.note if any(t.fix.start == "replay" for t in trials) else "",
    )
    return write_fixed(proof, folder, run, start.step, reward=reward, path=out)


Candidate = tuple[Fix, tuple[str, ...]]


def _candidates(
    findings: Sequence[Finding], run: config.Run, n_candidates: int
) -> tuple[list[Candidate], tuple[tuple[Fix, str], ...]]:
    """The fixes to test with their codes, and the fixes that forks cannot test with the reasons.

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
        reason = _incomparable(run, apply_assignments(run, fix.assignments))
        if reason:
            untried.append((fix, reason))
        elif len(tried) < n_candidates:
            tried.append((fix, tuple(dict.fromkeys(codes[key]))))
    return tried, tuple(untried)


def _incomparable(run: config.Run, fixed: config.Run) -> str:
    """Why forks of two configs cannot be compared; empty if they can."""
    if fixed.text != run.text:
        return "the fix changes the prepared text, which all forks share"
    if fixed.training.documents_apart != run.training.documents_apart:
        return "the fix changes the text of the held-out loss, so the losses cannot be compared"
    return ""


class _Forks:
    """Runs the forks of a proof; fixes with the same start share their unfixed forks."""

    def __init__(self, origin: Origin, start: Start, seeds: int, advance: Advances) -> None:
        self._origin = origin
        self._start = start
        self._seeds = [(origin.run.seed + i * _NEXT_SEED) % 2**63 for i in range(seeds)]
        self._advance = advance
        self._unfixed: dict[tuple[int, int], Fork] = {}
        self._checkpoint = _read(origin.folder, start.step)
        #: the time after the first update: imports and reading before it happen only once
        self._first: float | None = None
        self._number = self._updates = self._n_forks = self._all_updates = 0

    def trials(self, tried: Sequence[Candidate]) -> tuple[Trial, ...]:
        """Every fix on every seed."""
        starts = [self._start_of(fix) for fix, _ in tried]
        unfixed = set(starts)
        all_steps = [steps for group in (starts, unfixed) for _, steps in group]
        self._n_forks = len(all_steps) * len(self._seeds)
        self._all_updates = sum(all_steps) * len(self._seeds)
        return tuple(
            Trial(fix=fix, codes=codes, pairs=tuple(self._pairs(fix))) for fix, codes in tried
        )

    def _start_of(self, fix: Fix) -> tuple[int, int]:
        """The update after which the forks of a fix begin, and their updates."""
        if fix.start == "restart":
            return 0, self._start.fresh_steps
        return self._start.step, self._start.steps

    def _pairs(self, fix: Fix) -> Iterator[tuple[Fork, Fork]]:
        start, steps = self._start_of(fix)
        run = self._origin.run
        fixed = apply_assignments(run, fix.assignments)
        for seed in self._seeds:
            if (start, seed) not in self._unfixed:
                self._unfixed[start, seed] = self._fork(run, "unfixed", start, steps, seed)
            yield (
                self._unfixed[start, seed],
                self._fork(fixed, fix.change, start, steps, seed),
            )

    def _fork(self, run: config.Run, label: str, start: int, steps: int, seed: int) -> Fork:
        self._number += 1

        def report(step: int, fork: Fork | None = None) -> None:
            self._advance(
                Advance(
                    number=self._number,
                    n_forks=self._n_forks,
                    label=f"{label}, seed {seed}",
                    step=step,
                    steps=steps,
                    seconds_left=self._seconds_left(step),
                    fork=fork,
                )
            )

        report(0)
        fork = run_fork(
            self._origin,
            replace(run, seed=seed),
            self._checkpoint if start else None,
            steps=steps,
            tick=report,
        )
        report(fork.steps, fork)
        self._updates += steps
        return fork

    def _seconds_left(self, step: int) -> float | None:
        """Estimated from the time of the updates after the first; None before there are two."""
        updates, time_now = self._updates + step, time.perf_counter()
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
            f"{folder.shelf.path(step)} has weights that are not finite, so no fork can continue "
            "from it: write the name of an earlier checkpoint to checkpoints/latest"
        )
    return checkpoint
