"""Choose the start and the length of forks: from before the trouble to past it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pellucid.diagnosis.finding import Finding
from pellucid.training import Event, events

#: A sign becomes sick after several readings, so the trouble began about so many updates earlier.
_MARGIN = 50
#: To reach the trouble, a fork may be so many times as long as `steps`.
_STRETCH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start and the length of forks.

    Forks that replay take `steps` updates after update `step` (0: from the beginning). Forks that
    restart take `fresh_steps`. `note` says why forks cannot begin before the trouble.
    """

    step: int
    steps: int
    fresh_steps: int
    note: str = ""


def choose_start(
    run_events: Sequence[Event],
    findings: Sequence[Finding],
    checkpoints: Sequence[int],
    steps: int,
    total: int,
) -> Start:
    """Choose the newest checkpoint before the trouble, or the run's start.

    The trouble is the first update with a sick sign, a finding, or a value that is not finite. If
    there is none, forks begin at the newest checkpoint that is early enough.

    Args:
        run_events: the events of the run.
        findings: its findings.
        checkpoints: the updates of its checkpoints, in order.
        steps: the least updates of a fork.
        total: the updates of the run.
    """
    trouble = min(_troubles(run_events, findings), default=None)
    room = [step for step in (0, *checkpoints) if step == 0 or step + steps <= total]
    fresh = min(total, _length(0, trouble, steps))
    if trouble is None:
        return Start(step=room[-1], steps=min(steps, total - room[-1]), fresh_steps=fresh)
    checkpoint = [step for step in room if step <= max(0, trouble - _MARGIN)][-1]
    if trouble - checkpoint <= _STRETCH * steps:
        long = min(total - checkpoint, _length(checkpoint, trouble, steps))
        return Start(step=checkpoint, steps=long, fresh_steps=fresh)
    nearest = min((step for step in room if step > checkpoint), default=checkpoint)
    note = (
        f"there is no checkpoint from shortly before the trouble (update {trouble}): forks that "
        f"continue from a checkpoint begin at update {nearest}"
    )
    return Start(step=nearest, steps=min(steps, total - nearest), fresh_steps=fresh, note=note)


def _length(start: int, trouble: int | None, steps: int) -> int:
    """The updates of a fork: at least `steps`, and half of `steps` past the trouble."""
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
