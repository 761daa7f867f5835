"""Proof for a run of pellucid: test each fix on forks, against the same forks without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.checkpoints import load as load_checkpoint
from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.fixes.propose import Fix, apply_assignments, propose_fixes
from pellucid.diagnosis.history.run import history_of_run
from pellucid.diagnosis.proof.fork import Fork, Origin, Ticks, run_fork
from pellucid.diagnosis.proof.fork_start import Start, choose_start
from pellucid.diagnosis.proof.patched_config import write_fixed
from pellucid.diagnosis.proof.progress import Advances, Progress
from pellucid.diagnosis.proof.proof import Proof, correct
from pellucid.diagnosis.proof.verdict import Trial
from pellucid.disk import check_output
from pellucid.errors import CheckpointError
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.saved_runs.machine import machine_changes
from pellucid.saved_runs.records import read_events
from pellucid.saved_runs.replans import total_steps
from pellucid.tasks.rewards import check_same_reward, find_reward
from pellucid.training import generator_states, restore_generators

#: The distance of seeds, so large that forks share no seed with a neighbouring run.
NEXT_SEED = 1_000_003


def prove_run(
    path: Path,
    findings: Sequence[Finding] | None,
    *,
    steps: int,
    seeds: int,
    candidates: int,
    reward: str | None,
    config_path: str | Path | None,
    advance: Advances,
) -> Proof:
    """Try fixes on forks of a run; `prove` describes the arguments."""
    if config_path is not None:
        check_output(Path(config_path))
    folder, _ = existing_folder(path)
    if findings is None:
        findings = diagnose(history_of_run(path))
    run, plan = read_config(folder), read_plan(folder)
    machine_changes(plan)  # it refuses a device that this machine lacks
    check_same_reward(run.objective, folder, reward)
    origin = Origin(folder=folder, run=run, plan=plan, reward=find_reward(run.objective, reward))
    tried, untried = _candidates(findings, run, candidates)
    run_events, checkpoints = read_events(folder.metrics), folder.shelf.steps()
    starts = [
        choose_start(
            run_events,
            [finding for finding in findings if finding.code in codes],
            checkpoints,
            steps,
            total_steps(folder, plan),
        )
        for _, codes in tried
    ]
    states = generator_states()
    try:
        forks = _Forks(origin, seeds, advance)
        trials = correct(forks.trials(tried, starts))
    finally:
        restore_generators(*states)
    proof = Proof(
        run=str(folder.path),
        trials=trials,
        untried=untried,
        incurable=tuple(
            dict.fromkeys(finding.code for finding in findings if not propose_fixes(finding, run))
        ),
        note="; ".join(dict.fromkeys(_reason(t, s) for t, s in zip(trials, starts, strict=True))),
    )
    return write_fixed(proof, folder, run, reward=reward, path=config_path)


def _reason(trial: Trial, start: Start) -> str:
    if trial.fix.start == "restart":
        return start.fresh_reason or "fixes that need a new start are tried from the run's start"
    return start.reason


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

    def __init__(self, origin: Origin, seeds: int, advance: Advances) -> None:
        self._origin = origin
        self._seeds = [(origin.run.seed + i * NEXT_SEED) % 2**63 for i in range(seeds)]
        self._progress = Progress(advance)
        self._unfixed: dict[tuple[int, int, int], Fork] = {}
        self._checkpoints: dict[int, Checkpoint | None] = {0: None}

    def trials(self, tried: Sequence[Candidate], starts: Sequence[Start]) -> tuple[Trial, ...]:
        """Every fix on every seed."""
        origins = [
            (0, start.fresh_steps) if fix.start == "restart" else (start.step, start.steps)
            for (fix, _), start in zip(tried, starts, strict=True)
        ]
        all_steps = [steps for group in (origins, set(origins)) for _, steps in group]
        self._progress.n_forks = len(all_steps) * len(self._seeds)
        self._progress.all_updates = sum(all_steps) * len(self._seeds)
        return tuple(
            Trial(fix=fix, codes=codes, pairs=tuple(self._pairs(fix, *origin)))
            for (fix, codes), origin in zip(tried, origins, strict=True)
        )

    def _pairs(self, fix: Fix, start: int, steps: int) -> Iterator[tuple[Fork, Fork]]:
        run = self._origin.run
        fixed = apply_assignments(run, fix.assignments)
        for seed in self._seeds:
            key = (start, steps, seed)
            if key not in self._unfixed:
                self._unfixed[key] = self._fork(run, "unfixed", start, steps, seed)
            yield self._unfixed[key], self._fork(fixed, fix.change, start, steps, seed)

    def _fork(self, run: config.Run, label: str, start: int, steps: int, seed: int) -> Fork:
        def fork(tick: Ticks) -> Fork:
            checkpoint = self._checkpoint(start)
            seeded = replace(run, seed=seed)
            return run_fork(self._origin, seeded, checkpoint, steps=steps, tick=tick)

        return self._progress.run(f"{label}, seed {seed}", steps, fork)

    def _checkpoint(self, step: int) -> Checkpoint | None:
        if step not in self._checkpoints:
            self._checkpoints[step] = _read(self._origin.folder, step)
        return self._checkpoints[step]


def _read(folder: RunFolder, step: int) -> Checkpoint:
    checkpoint = load_checkpoint(folder.shelf.path(step))
    if not all(bool(tensor.isfinite().all()) for tensor in checkpoint.model.values()):
        raise CheckpointError(
            f"{folder.shelf.path(step)} has weights that are not finite, so no fork can continue "
            "from it: write the name of an earlier checkpoint to checkpoints/latest"
        )
    return checkpoint
