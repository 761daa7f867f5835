"""Where forks of a run begin, and how far they go: before the trouble, and past it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pellucid.diagnosis.finding import Finding
from pellucid.training import Event, events

#: A sign is called sick after several readings: what it shows began about so many updates before.
_MARGIN = 50
#: A fork is at most so many times as long as was asked for, to reach the trouble.
_STRETCH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """After which update forks that replay begin (0: at the start), and the updates of each.

    `fresh_steps` are those of forks that have to begin anew. `note` is said where forks could not
    begin before the trouble.
    """

    step: int
    steps: int
    fresh_steps: int
    note: str = ""


def choose_start(
    told: Sequence[Event],
    findings: Sequence[Finding],
    checkpoints: Sequence[int],
    steps: int,
    total: int,
) -> Start:
    """The newest checkpoint before the trouble, or the run's start, if forks reach it from there.

    The trouble is where the first sign was sick, the first finding was made, or a value was not
    finite. Where none of these is known, forks begin at the newest checkpoint that leaves room.
    """
    trouble = min(_troubles(told, findings), default=None)
    room = [step for step in (0, *checkpoints) if step == 0 or step + steps <= total]
    fresh = min(total, _length(0, trouble, steps))
    if trouble is None:
        return Start(step=room[-1], steps=min(steps, total - room[-1]), fresh_steps=fresh)
    checkpoint = [step for step in room if step <= max(0, trouble - _MARGIN)][-1]
    if trouble - checkpoint <= _STRETCH * steps:
        long = min(total - checkpoint, _length(checkpoint, trouble, steps))
        return Start(step=checkpoint, steps=long, fresh_steps=fresh)
    near = min((step for step in room if step > checkpoint), default=checkpoint)
    note = (
        f"no checkpoint from shortly before the trouble (update {trouble}) is left: forks that go "
        f"on from a checkpoint begin at update {near}"
    )
    return Start(step=near, steps=min(steps, total - near), fresh_steps=fresh, note=note)


def _length(start: int, trouble: int | None, steps: int) -> int:
    """Half as many updates past the trouble as were asked for, and at least as many in all."""
    if trouble is None or trouble - start > _STRETCH * steps:
        return steps
    return max(steps, trouble - start + steps // 2)


def _troubles(run_events: Sequence[Event], findings: Sequence[Finding]) -> Iterator[int]:
    yield from (finding.step for finding in findings if finding.step)
    for event in run_events:
        if isinstance(event, events.StoppedNonFinite):
            yield event.step
        if isinstance(event, events.Vitals):
            yield from (step for *_, word, step, _ in event.signs if word == "sick")
