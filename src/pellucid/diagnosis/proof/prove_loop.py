"""Proof for any loop: screen the fixes on two seeds, then try the best on pairs of other seeds.

To choose among fixes by their luck on the same forks would flatter the winner. So the forks that
choose have two seeds, and the pairs that judge have others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.finding import Finding, read_codes
from pellucid.diagnosis.fixes.loop import LOOP_FIXES, LoopChange
from pellucid.diagnosis.fixes.propose import Fix, read_fixes
from pellucid.diagnosis.history.watch import history_of_watch
from pellucid.diagnosis.loop import Loop
from pellucid.diagnosis.proof.fork import Fork, Ticks
from pellucid.diagnosis.proof.loop_fork import MakeLoop, run_loop_fork
from pellucid.diagnosis.proof.progress import Advances, Progress
from pellucid.diagnosis.proof.proof import Proof, Screening
from pellucid.diagnosis.proof.prove_run import NEXT_SEED
from pellucid.diagnosis.proof.screening import Candidate, finalists, first_rate, screen
from pellucid.diagnosis.proof.verdict import Trial
from pellucid.errors import ConfigError
from pellucid.training import generators_kept
from pellucid.vitals import watch

#: So many fixes are tried on pairs at most, and each is judged so often; p-values are corrected
#: for all of it (Bonferroni).
_CONFIRMED, _LOOKS = 2, 4
#: After the third look, more pairs follow only if chance would explain so much this seldom.
_HOPEFUL = 0.3
#: Each of these only fits a loop in which a number is far from the usual: they are tried like fixes
#: for findings.
_ODD = ("hold_weights", "dropout", "eps", "decay", "norm_eps", "momentum")
#: Changes that help many loops, tried after those for the findings.
_OFTEN = (
    "plain_update",
    "rate_tenth",
    "rate_tenfold",
    "other_direction",
    "steady_rate",
    "clip",
    "warm_up_longer",
    "decay_groups",
    "clear_gradients",
)
_MOVES_TARGETS = (
    "it changes what the held-out loss counts, so that loss cannot judge it: give measure=, for a "
    "language model next_token_loss(rows)"
)


def prove_loop(
    make_loop: MakeLoop,
    findings: Sequence[Finding] | None,
    *,
    steps: int,
    seeds: int,
    candidates: int,
    advance: Advances,
) -> Proof:
    """Try fixes on a loop that is built anew for each fork.

    Args:
        make_loop: builds the loop for a seed.
        findings: its faults; None to watch and diagnose the first fork.
        steps: the updates of each fork.
        seeds: the pairs of forks that judge a fix.
        candidates: how many fixes are screened.
        advance: called as forks advance.

    Raises:
        ConfigError: the loop cannot be built, or its forks do not depend on the seed.
    """
    forks = _LoopForks(make_loop, steps, advance)
    forks.expect(1)
    unfixed, observed = forks.diagnose(0) if findings is None else (forks.run("", 0), findings)
    with generators_kept():
        loop = make_loop(0)
    name = type(loop.model).__name__
    tried, untried, incurable = _candidates(observed, loop, steps, candidates)

    def code(name: str) -> str:
        change = LOOP_FIXES[name](loop, steps)
        return "" if change is None else change.code

    screened = screen(forks, tried, unfixed, code)
    untried += [(c.fix, f"the loop raised with it: {c.error}") for c in screened if c.error]
    trials: list[Trial] = []
    for candidate in finalists(forks, screened, unfixed)[:_CONFIRMED]:
        trials.append(forks.trial(candidate, seeds))
        if trials[-1].verdict == "helped":
            break
    reason = (
        f"findings: {', '.join(dict.fromkeys(finding.code for finding in observed))}"
        if observed
        else "nothing was found, so changes that often help were tried"
    )
    return Proof(
        run=name,
        trials=tuple(trials),
        untried=tuple(untried),
        incurable=incurable,
        note=f"{reason}; all forks begin at the loop's start",
        findings=tuple(observed),
        screening=Screening(
            unfixed=unfixed, fixed=tuple((c.fix, tuple(c.forks)) for c in screened if c.forks)
        ),
    )


def _candidates(
    findings: Sequence[Finding], loop: Loop, steps: int, n_candidates: int
) -> tuple[list[Candidate], list[tuple[Fix, str]], tuple[str, ...]]:
    """The fixes to screen, those that cannot be judged with the reason, and codes without any."""
    ranked = [
        (i + j, i, first_rate(name))
        for i, finding in enumerate(findings)
        for j, name in enumerate(read_codes()[finding.code].fixes)
        if name in LOOP_FIXES
    ]
    codes: dict[str, list[str]] = {}
    for _, i, name in sorted(ranked):
        codes.setdefault(name, []).append(findings[i].code)
    for name in (*_ODD, *_OFTEN):
        codes.setdefault(name, [])
    tried: list[Candidate] = []
    untried: list[tuple[Fix, str]] = []
    cured: set[str] = set()
    for name, naming_codes in codes.items():
        change = LOOP_FIXES[name](loop, steps)
        if change is None:
            continue
        cured.update(naming_codes)
        fix = Fix(assignments=(), code=change.code, **read_fixes()[name])
        if change.moves_targets and loop.measure is None:
            untried += [(fix, _MOVES_TARGETS)] if naming_codes else []
        elif len(tried) < n_candidates:
            unique_codes = tuple(dict.fromkeys(naming_codes))
            proposed = bool(naming_codes) or name in _ODD
            tried.append(Candidate(name=name, fix=fix, codes=unique_codes, is_proposed=proposed))
    incurable = dict.fromkeys(f.code for f in findings if f.code not in cured)
    return tried, untried, tuple(incurable)


class _LoopForks:
    """Runs the forks of a loop; fixes share the unfixed forks of a seed."""

    def __init__(self, make_loop: MakeLoop, steps: int, advance: Advances) -> None:
        self._make_loop = make_loop
        self._steps = steps
        self._progress = Progress(advance)
        self._unfixed: dict[int, Fork] = {}
        #: the sum of all weights after an unfixed fork, by its seed
        self._weights: dict[int, float] = {}

    def expect(self, n_forks: int) -> None:
        """Say how many more forks there will be."""
        self._progress.n_forks += n_forks
        self._progress.all_updates += n_forks * self._steps

    def diagnose(self, seed: int) -> tuple[Fork, Sequence[Finding]]:
        """An unfixed fork under watch, and its findings."""
        findings: list[Finding] = []

        def observe(loop: Loop) -> Generator[Callable[[Any], None]]:
            with watch(loop.model, loop.optimizer, max_overhead=None) as observer:
                yield observer.step
            findings.extend(diagnose(history_of_watch(observer)))

        fork = self._progress.run(
            f"unfixed, seed {seed}",
            self._steps,
            lambda tick: run_loop_fork(
                self._make_loop, seed=seed, steps=self._steps, observe=observe, tick=tick
            ),
        )
        self._unfixed[seed] = fork
        return fork, findings

    def run(self, name: str, seed: int) -> Fork:
        """A fork with a fix, or without one if the name is empty."""
        if not name and seed in self._unfixed:
            return self._unfixed[seed]

        def fork(tick: Ticks) -> Fork:
            def build(loop: Loop) -> LoopChange | None:
                return LOOP_FIXES[name](loop, self._steps) if name else None

            return run_loop_fork(make_loop, seed=seed, steps=self._steps, build=build, tick=tick)

        loops: list[Loop] = []

        def make_loop(seed: int) -> Loop:
            loops.append(self._make_loop(seed))
            return loops[-1]

        label = read_fixes()[name]["change"] if name else "unfixed"
        result = self._progress.run(f"{label}, seed {seed}", self._steps, fork)
        if not name:
            self._unfixed[seed] = result
            weights = loops[-1].model.parameters()
            self._weights[seed] = math.fsum(float(w.detach().double().sum()) for w in weights)
        return result

    def trial(self, candidate: Candidate, n_seeds: int) -> Trial:
        """Pairs of forks on seeds that did not choose the fix; more while they lean to it."""
        pairs = self._pairs(candidate.name, range(1, n_seeds + 1))
        trial = _judged(candidate, pairs)
        for look in range(1, _LOOKS):
            is_hopeful = look < _LOOKS - 1 or (trial.difference.p or 0.0) < _HOPEFUL
            if trial.verdict != "no difference" or not (trial.leans and is_hopeful):
                break
            pairs += self._pairs(candidate.name, range(len(pairs) + 1, 2 * len(pairs) + 1))
            trial = _judged(candidate, pairs)
        return trial

    def _pairs(self, name: str, numbers: Sequence[int]) -> list[tuple[Fork, Fork]]:
        seeds = [number * NEXT_SEED for number in numbers]
        self.expect(len(seeds) + sum(seed not in self._unfixed for seed in seeds))
        unfixed = [self.run("", seed) for seed in seeds]
        if len({self._weights[seed] for seed in seeds}) == 1:
            raise ConfigError(
                f"forks with the seeds {', '.join(map(str, seeds))} end with equal weights: let "
                "make_loop draw the first weights or the order of batches from its seed, otherwise "
                "pairs are one measurement, repeated"
            )
        return list(zip(unfixed, [self.run(name, seed) for seed in seeds], strict=True))


def _judged(candidate: Candidate, pairs: Sequence[tuple[Fork, Fork]]) -> Trial:
    trial = Trial(fix=candidate.fix, codes=candidate.codes, pairs=tuple(pairs))
    p = trial.difference.p
    return replace(trial, adjusted_p=None if p is None else min(1.0, _CONFIRMED * _LOOKS * p))
