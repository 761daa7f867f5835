"""Vital signs and their causes in `transformers.Trainer`: `callbacks=[DiagnosisCallback()]`.

It needs the package transformers, which nothing else here loads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.live_causes import Action, Live
from pellucid.training import guarded
from pellucid.vitals.huggingface import VitalsCallback


class DiagnosisCallback(VitalsCallback):
    """Watches a `transformers.Trainer`, and reports the faults of its training.

    Args:
        show: whether to print signs and findings at the end.
        action: "stop" ends a training that has a fault.
        ignore: codes of findings to leave out.
        declared: what you intend, so that it is not reported: `declare(frozen=["embed"])`.
        options: as for `pellucid.vitals.watch`.
    """

    def __init__(
        self,
        *,
        show: bool = True,
        action: Action = "tell",
        ignore: Iterable[str] = (),
        declared: Expectations | None = None,
        **options: Any,
    ) -> None:
        super().__init__(show=show, **options)
        self.live = Live(action, ignore, self.guard, declared)

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, the worst first; none before training begins."""
        return self.live.findings()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch, and to listen."""
        super().on_train_begin(args, state, control, **kwargs)
        if self.watch is not None:
            self.guard("causes", self.live.listen_to, self.watch)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop the training if it has a fault and you asked for that."""
        if self.live.is_over:
            control.should_training_stop = True
        return control

    @guarded("the findings")
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the watch, and print the signs and their causes."""
        super().on_train_end(args, state, control, **kwargs)
        if self._show and state.is_world_process_zero:
            print(self.live.report())
