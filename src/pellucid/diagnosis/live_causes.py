"""What is behind the signs of a training that still runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.finding import Finding, drop_ignored, has_severity
from pellucid.diagnosis.history.watch import history_of_watch
from pellucid.errors import ConfigError
from pellucid.training import Guard
from pellucid.vitals import Sign, Watch

#: What is done about a fault: it is told at the end, or the training is stopped.
Action = Literal["tell", "stop"]

#: A sign that is sick so often in a row is reason to ask for causes.
_LASTING = 3


class Live:
    """Asks for causes when signs stay sick.

    Args:
        action: "stop" where a fault is to end the training.
        ignore: codes to leave out.

    Raises:
        ConfigError: there is no such action, or `ignore` names a code that there is not.
    """

    def __init__(
        self, action: Action = "tell", ignore: Iterable[str] = (), guard: Guard | None = None
    ) -> None:
        if action not in get_args(Action):
            raise ConfigError(f"action must be 'tell' or 'stop', was {action!r}")
        self._action = action
        self._ignore = tuple(ignore)
        drop_ignored([], self._ignore)
        self.guard = guard or Guard()
        self._in_a_row: dict[str, int] = {}
        self._due = False
        self._watch: Watch | None = None

    def listen_to(self, watch: Watch) -> None:
        """Hear the signs of a watch from now on."""
        self._watch = watch
        self._in_a_row.clear()
        self._due = False
        watch.listeners.append(self._hear)

    def _hear(self, step: int, signs: Sequence[Sign]) -> None:
        for sign in signs:
            sick = sign.word == "sick"
            self._in_a_row[sign.id] = self._in_a_row.get(sign.id, 0) + 1 if sick else 0
            # asked again while it stays so: the cause may be plain only later
            self._due |= sick and self._in_a_row[sign.id] % _LASTING == 0

    @property
    def is_over(self) -> bool:
        """Whether the training is to stop: signs stayed sick, and a fault is behind them."""
        if self._action != "stop" or not self._due:
            return False
        self._due = False
        return has_severity(self.findings(), "fault")

    def findings(self) -> list[Finding]:
        """What is wrong so far, the worst first."""
        return self.guard("causes", self._diagnose) or []

    def _diagnose(self) -> list[Finding]:
        if self._watch is None:
            return []
        return diagnose(history_of_watch(self._watch), ignore=self._ignore)

    def report(self) -> str:
        """The findings as text."""
        findings = self.findings()
        texts = [finding.text() for finding in findings]
        if not texts and "causes" in self.guard.off:
            return f"causes could not be asked for: {self.guard.off['causes']}"
        return "\n\n".join(texts) if texts else "nothing was found"
