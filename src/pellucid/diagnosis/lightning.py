"""Vital signs and their causes in Lightning: `Trainer(callbacks=[DiagnosisCallback()])`.

It needs the package lightning (or pytorch_lightning), which nothing else here loads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding
from pellucid.diagnosis.live_causes import Action, Live
from pellucid.training import guarded
from pellucid.vitals.lightning import VitalsCallback


class DiagnosisCallback(VitalsCallback):
    """Watches a Lightning training, and reports its faults.

    Args:
        model: as for the callback of vital signs.
        show: whether to print signs and findings at the end.
        action: "stop" ends a training that has a fault.
        ignore: codes of findings to leave out.
        declared: what you intend, so that it is not reported: `declare(frozen=["embed"])`.
        options: as for `pellucid.vitals.watch`.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        show: bool = True,
        action: Action = "tell",
        ignore: Iterable[str] = (),
        declared: Expectations | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, show=show, **options)
        self.live = Live(action, ignore, self.guard, declared)

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, the worst first; none before training begins."""
        return self.live.findings()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch, and to listen."""
        super().on_train_start(trainer, pl_module)
        if self.watch is not None:
            self.guard("causes", self.live.listen_to, self.watch)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take the loss; stop the training if it has a fault and you asked for that."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self.live.is_over:
            trainer.should_stop = True

    @guarded("the findings")
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the watch, and print the signs and their causes."""
        super().on_train_end(trainer, pl_module)
        if self._show and trainer.is_global_zero:
            print(self.live.report())
