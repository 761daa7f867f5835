"""What could not be looked at: a probe or a cause that raises is a finding, and no end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pellucid.diagnosis.finding import Finding, Severity, build_finding, evidence
from pellucid.training import Guard, error_line

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ProbeRunner:
    """Asks one after another, through the guard that nothing gets past."""

    def __init__(
        self, *, severity: Severity | None = None, through: tuple[type[Exception], ...] = ()
    ) -> None:
        #: a finding for each that raised
        self.unseen: list[Finding] = []
        self._severity: Severity | None = severity
        self._guard = Guard(self._note, reraised=through)

    def __call__(
        self,
        ask: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result | None:
        """What it gives; None if it raises."""
        return self._guard(_name_of(ask), ask, *args, **kwargs)

    def _note(self, part: str, error: Exception) -> None:
        self.unseen.append(
            build_finding(
                "SEE001",
                f"{part} was not looked at, because {error_line(error)}.",
                evidence("SEE001", "error", type(error).__name__),
                where=part,
                severity=self._severity,
                confidence=1.0,
            )
        )


def _name_of(ask: Any) -> str:
    """The name of a probe or a cause, in words."""
    name: str = getattr(ask, "__name__", type(ask).__name__)
    return name.removeprefix("probe_").strip("_").replace("_", " ")
