"""Causes of sick signs while a training still runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding, drop_ignored, has_severity
from pellucid.diagnosis.history.watch import history_of_watch
from pellucid.errors import ConfigError
from pellucid.training import Guard
from pellucid.vitals import Sign, Watch

#: The reaction to a fault: report it at the end, or stop the training.
Action = Literal["tell", "stop"]

#: After so many sick readings of a sign in a row, look for causes.
_LASTING = 3


class Live:
    """Looks for causes when signs stay sick.

    Args:
        action: "stop" if a fault should end the training.
        ignore: codes to leave out.
        guard: runs the search, so that an error in it does not stop the training.
        declared: what you intend, so that it is not reported.

    Raises:
        ConfigError: the action or a code of `ignore` is unknown.
    """

    def __init__(
        self,
        action: Action = "tell",
        ignore: Iterable[str] = (),
        guard: Guard | None = None,
        declared: Expectations | None = None,
    ) -> None:
        if action not in get_args(Action):
            raise ConfigError(f"action must be 'tell' or 'stop', was {action!r}")
        self._action = action
        self._ignore, self._declared = tuple(ignore), declared
        drop_ignored([], self._ignore)
        self.guard = guard or Guard()
        self._in_a_row: dict[str, int] = {}
        self._due = False
        self._watch: Watch | None = None

    def listen_to(self, watch: Watch) -> None:
        """Follow the signs of a watch from now on."""
        self._watch = watch
        self._in_a_row.clear()
        self._due = False
        watch.listeners.append(self._count_sick)

    def _count_sick(self, step: int, signs: Sequence[Sign]) -> None:
        for sign in signs:
            sick = sign.word == "sick"
            self._in_a_row[sign.id] = self._in_a_row.get(sign.id, 0) + 1 if sick else 0
            # look again while it stays sick: the cause may show only later
            self._due |= sick and self._in_a_row[sign.id] % _LASTING == 0

    @property
    def is_over(self) -> bool:
        """Whether the training should stop: signs stayed sick because of a fault."""
        if self._action != "stop" or not self._due:
            return False
        self._due = False
        return has_severity(self.findings(), "fault")

    def findings(self) -> list[Finding]:
        """The faults so far, the worst first."""
        return [] if self._watch is None else self.guard("causes", self._find, self._watch) or []

    def _find(self, watch: Watch) -> list[Finding]:
        history = history_of_watch(watch, declared=self._declared)
        return diagnose(history, declared=self._declared, ignore=self._ignore)

    def report(self) -> str:
        """The findings as text."""
        texts = [finding.text() for finding in self.findings()]
        if not texts and "causes" in self.guard.off:
            return f"pellucid could not look for causes: {self.guard.off['causes']}"
        return "\n\n".join(texts) if texts else "nothing was found"
