"""Proof: test fixes on forks of a run or of any loop, against the same forks without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.proof.loop_fork import MakeLoop
from pellucid.diagnosis.proof.progress import Advances
from pellucid.diagnosis.proof.proof import Proof
from pellucid.diagnosis.proof.prove_loop import prove_loop
from pellucid.diagnosis.proof.prove_run import prove_run
from pellucid.errors import ConfigError
from pellucid.extras import import_extra

#: The pairs, and the fixes that are tried: of a run on all pairs, of a loop on one fork first.
_FOR_A_RUN, _FOR_A_LOOP = (3, 3), (4, 10)


def prove(
    target: str | Path | MakeLoop,
    findings: Sequence[Finding] | None = None,
    *,
    steps: int = 100,
    seeds: int | None = None,
    candidates: int | None = None,
    reward: str | None = None,
    out: str | Path | None = None,
    advance: Advances = lambda advance: None,
) -> Proof:
    """Test fixes on forks of a run or of any loop, each against a fork without the fix.

    Args:
        target: the folder of a run, which stays as it is; or a function that builds a `Loop` for a
            seed.
        findings: the faults, the worst and most confident first. By default pellucid diagnoses the
            run, or watches a fork of the loop.
        steps: the least number of updates of each fork of a run; all updates of a fork of a loop.
        seeds: the pairs of forks for each fix, with other orders of the data and first weights: 3
            for a run, 4 for a loop.
        candidates: how many fixes to test: 3 for a run; 10 for a loop, and the best of them on
            pairs.
        reward: the reward that the run is trained for, if it has one.
        out: the path of the patched config; by default next to the run's folder.
        advance: called as forks advance.

    Raises:
        ConfigError: fewer than 2 seeds or 1 candidate, the reward is missing, or the loop cannot be
            built.
        RunError: there is no run, or this machine lacks its device.
    """
    import_extra("lab", "scipy.stats")
    usual_seeds, usual_candidates = _FOR_A_LOOP if callable(target) else _FOR_A_RUN
    seeds = usual_seeds if seeds is None else seeds
    candidates = usual_candidates if candidates is None else candidates
    minima = (("steps", steps, 1), ("seeds", seeds, 2), ("candidates", candidates, 1))
    for name, value, least in minima:
        if value < least:
            raise ConfigError(f"--{name} must be at least {least}, was {value}")
    if not callable(target):
        return prove_run(
            Path(target),
            findings,
            steps=steps,
            seeds=seeds,
            candidates=candidates,
            reward=reward,
            config_path=out,
            advance=advance,
        )
    if reward is not None or out is not None:
        raise ConfigError(
            "reward= and out= are for runs of pellucid; a loop has no config to write"
        )
    return prove_loop(
        target, findings, steps=steps, seeds=seeds, candidates=candidates, advance=advance
    )
