"""Which trainings there are: of each split, by name, and each one in full.

Comes in: the name of a split. Goes out: jobs, and the training of a job. It does not run any.

`dev` is what thresholds are chosen on: two levels of each class, one seed each, two architectures.
`eval` has other levels, other seeds, and the two architectures that nothing was chosen on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from benchmarks.diagnosis import (
    faults_attention,
    faults_build,
    faults_data,
    faults_loop,
    faults_numbers,
)
from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.rows import Corpus
from benchmarks.diagnosis.setups import HELD_OUT, TUNED, Arch, setup
from benchmarks.diagnosis.training import Training, new_training
from benchmarks.diagnosis.unseen import UNSEEN
from benchmarks.diagnosis.variants import VARIANTS
from pellucid import config

Split = Literal["dev", "eval"]

_FAULTS_IN_ORDER = (
    *faults_attention.FAULTS,
    *faults_build.FAULTS,
    *faults_numbers.FAULTS,
    *faults_loop.FAULTS,
    *faults_data.FAULTS,
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS_IN_ORDER}
HEALTHY = "healthy"
#: Healthy runs that an outcome is compared with: so many of each base and architecture.
_PAIRED = {"dev": 3, "eval": 5}
_SEEDS = {"dev": (11,), "eval": (101, 102, 103)}
_ODD = {"dev": 140, "eval": 300}


@dataclass(frozen=True, order=True)
class Job:
    """One training: a class of faults or `healthy`, and which."""

    split: Split
    arch: Arch
    kind: str
    variant: str
    level: int
    seed: int

    @property
    def name(self) -> str:
        """What its file is called."""
        words = (self.kind, self.variant, str(self.level), str(self.seed))
        file_name = "-".join(word.replace(" ", "_").replace("/", "by") for word in words)
        return f"{self.arch}/{file_name}"


def jobs(split: Split) -> list[Job]:
    """All of a split: first those that outcomes are compared with, then all others, mixed."""
    pairs = set(_of_pairs(split))
    all_jobs = set(_of_faults(split)) | pairs
    all_jobs |= set(_of_odd(split, all_jobs))

    def order(job: Job) -> tuple[bool, bytes]:
        return job not in pairs, hashlib.sha256(repr(job).encode()).digest()

    return sorted(all_jobs, key=order)


def faults_of(arch: Arch) -> list[Fault]:
    """The classes that an architecture is given."""
    if arch in TUNED:
        return [fault for fault in FAULTS.values() if arch in fault.archs]
    return [FAULTS[name] for name in UNSEEN[arch]]


def _archs(split: Split) -> tuple[Arch, ...]:
    return TUNED if split == "dev" else (*TUNED, *HELD_OUT)


def _of_faults(split: Split) -> Iterator[Job]:
    for arch in _archs(split):
        for fault in faults_of(arch):
            for level in (0, 1):
                for seed in _SEEDS[split]:
                    yield Job(split, arch, fault.name, base_of(fault, arch), level, seed + level)


def base_of(fault: Fault, arch: Arch) -> str:
    """The healthy variant that a fault is put into; encoders are padded as they are."""
    return fault.base if arch in VARIANTS[fault.base].archs else "plain"


def _of_pairs(split: Split) -> Iterator[Job]:
    """Healthy runs of every base, with seeds of their own."""
    for arch in _archs(split):
        for base in sorted({base_of(fault, arch) for fault in faults_of(arch)}):
            for number in range(_PAIRED[split]):
                yield Job(split, arch, HEALTHY, base, 0, _SEEDS[split][0] + 20 + number)


def _of_odd(split: Split, known_jobs: set[Job]) -> Iterator[Job]:
    """Healthy runs of every variant in turn, until there are as many as are promised."""
    n_missing = _ODD[split] - sum(job.kind == HEALTHY for job in known_jobs)
    places = [(a, v.name) for v in VARIANTS.values() for a in v.archs if a in _archs(split)]
    for number in range(max(0, n_missing)):
        arch, name = places[number % len(places)]
        yield Job(split, arch, HEALTHY, name, 0, _SEEDS[split][0] + 50 + number // len(places))


def build_training(job: Job, corpus: Corpus, run: config.Run | None = None) -> Training:
    """The training of a job; with a `run`, that one in the place of its own, as a repair is."""
    variant = VARIANTS[job.variant]
    training = new_training(job.arch, run or config_of(job), corpus, variant.form)
    if variant.inject is not None:
        variant.inject(training)
    if job.kind != HEALTHY:
        fault = FAULTS[job.kind]
        if fault.inject is not None:
            fault.inject(training, level_of(job))
    return training


def config_of(job: Job) -> config.Run:
    """The config of a job."""
    run, variant = setup(job.arch, job.seed), VARIANTS[job.variant]
    if variant.configure is not None:
        run = variant.configure(run, job.arch)
    if job.kind == HEALTHY or (configure := FAULTS[job.kind].configure) is None:
        return run
    return configure(run, job.arch, level_of(job))


def level_of(job: Job) -> object:
    """The level of a job's fault."""
    return FAULTS[job.kind].levels(job.split)[job.level]


def header(job: Job) -> dict[str, object]:
    """What a record says of its job."""
    if job.kind == HEALTHY:
        return {"name": job.name, "job": asdict(job)}
    fault, level = FAULTS[job.kind], level_of(job)
    return {
        "name": job.name,
        "job": asdict(job),
        "level": str(level),
        "onset": fault.onset(level),
        "accepted": list(fault.accepted),
        "kind": fault.kind,
        "place": fault.place,
        "repairable": fault.repairable,
    }


def job_of(record: dict[str, object]) -> Job:
    """The job of a record."""
    fields: dict[str, object] = record["job"]  # type: ignore[assignment]
    return Job(**fields)  # type: ignore[arg-type]
