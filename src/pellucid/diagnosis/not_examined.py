"""A probe or a cause that raises becomes a finding, and the others still run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pellucid.diagnosis.finding import Finding, Severity, describe
from pellucid.training import Guard, error_line

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ProbeRunner:
    """Runs probes or causes, and turns an error into a finding.

    Args:
        severity: the severity of such a finding, if not the code's.
        passed_errors: errors that it raises again.
    """

    def __init__(
        self, *, severity: Severity | None = None, passed_errors: tuple[type[Exception], ...] = ()
    ) -> None:
        #: one finding for each error
        self.unseen: list[Finding] = []
        self._severity: Severity | None = severity
        self._guard = Guard(self.note, reraised=passed_errors)

    def __call__(
        self,
        probe: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result | None:
        """The result of the probe; None if it raises."""
        name: str = getattr(probe, "__name__", type(probe).__name__)
        name = name.removeprefix("probe_").strip("_").replace("_", " ")
        return self._guard(name, probe, *args, **kwargs)

    def note(self, part: str, error: Exception) -> None:
        """Add a finding for an error in a part."""
        text, kind = error_line(error), type(error).__name__
        self.unseen.append(
            describe("SEE001", part=part, error=text, kind=kind, severity=self._severity)
        )
