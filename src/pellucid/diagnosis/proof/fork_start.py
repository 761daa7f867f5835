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


@dataclass(frozen=True, slots=True)
class Start:
    """The start and the length of forks.

    Forks that replay take `steps` updates after update `step` (0: from the beginning). Forks that
    restart take `fresh_steps` from the beginning. `reason` says why forks that replay begin there,
    and `fresh_reason` why those that restart do not show the trouble, if so.
    """

    step: int
    steps: int
    fresh_steps: int
    reason: str
    fresh_reason: str = ""


def choose_start(
    run_events: Sequence[Event],
    findings: Sequence[Finding],
    checkpoints: Sequence[int],
    steps: int,
    total: int,
) -> Start:
    """Choose the run's start if forks from there can reach past the trouble, else a checkpoint.

    The trouble is the first update of a finding (0: the fault was there from the start). If no
    finding has one, it is the first sick sign or value that is not finite.

    Args:
        run_events: the events of the run.
        findings: the findings that forks are to show.
        checkpoints: the updates of its checkpoints, in order.
        steps: the least updates of a fork.
        total: the updates of the run.
    """
    first_updates = [finding.step for finding in findings if finding.step is not None]
    trouble = min(first_updates or _troubles(run_events), default=None)
    room = [step for step in (0, *checkpoints) if step == 0 or step + steps <= total]
    longest = _STRETCH * steps
    fresh = min(total, _length(0, trouble, steps))
    if trouble is None:
        newest = room[-1]
        reason = f"nothing says when the trouble began: forks begin after update {newest}"
        return Start(newest, min(steps, total - newest), fresh, reason)
    if trouble <= longest:
        reason = (
            f"forks begin at the run's start: the trouble shows from update {trouble} on, and "
            f"forks of up to {longest} updates are affordable"
        )
        return Start(0, fresh, fresh, reason)
    late = (
        f"the trouble shows from update {trouble} on, and only forks of up to {longest} updates "
        "are affordable: "
    )
    fresh_reason = f"{late}those that need the run's start end before the trouble"
    checkpoint = [step for step in room if step <= trouble - _MARGIN][-1]
    if trouble - checkpoint <= longest:
        length = min(total - checkpoint, _length(checkpoint, trouble, steps))
        reason = f"{late}forks begin after update {checkpoint}, the last checkpoint before it"
        return Start(checkpoint, length, fresh, reason, fresh_reason)
    nearest = min((step for step in room if step > checkpoint), default=checkpoint)
    reason = (
        f"{late}there is no checkpoint from shortly before it, so forks begin after update "
        f"{nearest} and may not show it"
    )
    return Start(nearest, min(steps, total - nearest), fresh, reason, fresh_reason)


def _length(start: int, trouble: int | None, steps: int) -> int:
    """The updates of a fork: at least `steps`, and half of `steps` past the trouble."""
    if trouble is None or trouble - start > _STRETCH * steps:
        return steps
    return max(steps, trouble - start + steps // 2)


def _troubles(run_events: Sequence[Event]) -> Iterator[int]:
    for event in run_events:
        if isinstance(event, events.StoppedNonFinite):
            yield event.step
        if isinstance(event, events.Vitals):
            yield from (step for *_, word, step, _ in event.signs if word == "sick")
