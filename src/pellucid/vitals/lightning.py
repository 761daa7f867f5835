"""Watching Lightning: `Trainer(callbacks=[VitalsCallback()])`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.training import Guard, guarded
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.watch import checked, trained_part, watch

if TYPE_CHECKING:
    Callback = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError as missing:
            raise ConfigError(
                f"this callback is for Lightning, which cannot be imported ({missing}): pip "
                "install lightning, or watch your own loop with pellucid.vitals.watch(model, "
                "optimizer)"
            ) from None


class VitalsCallback(Callback):
    """Watches a Lightning training; `callback.watch` is the watch itself.

    Args:
        model: The name of the module within the LightningModule that maps ids to logits. The
            default is the LightningModule's only child that trains, or itself.
        show: Whether to print the five rows at the end.
        options: As for `pellucid.vitals.watch`.
    """

    def __init__(self, model: str | None = None, *, show: bool = True, **options: Any) -> None:
        super().__init__()
        self._name = model
        self._show = show
        self._options = checked(options)
        self._state: dict[str, Any] = {}
        self.watch: Watch | None = None
        self.guard = Guard()

    @guarded("the whole training")
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch; a resumed training restores the windows of its checkpoint."""
        self._close()
        self.watch = None
        is_named = self._name is not None
        inner = pl_module.get_submodule(self._name) if is_named else trained_part(pl_module)
        clip_norm = trainer.gradient_clip_val or None
        self.watch = watch(inner, trainer.optimizers, clip_norm=clip_norm, **self._options)
        planned = trainer.estimated_stepping_batches
        self.watch.first_call.planned_updates = int(planned) if math.isfinite(planned) else None
        if self._state:
            self.watch.load_state_dict(self._state)
        self.watch.__enter__()

    @guarded("loss.*")
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take the loss of the batch."""
        is_mapping = isinstance(outputs, Mapping)
        loss = cast("Mapping[str, Any]", outputs).get("loss") if is_mapping else outputs
        if self.watch is not None and isinstance(loss, Tensor):
            # Lightning has divided it by the parts of an update
            self.watch.step(loss * trainer.accumulate_grad_batches)

    @guarded("the report")
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop watching, and print the report."""
        self._close()
        if self._show and self.watch is not None and trainer.is_global_zero:
            print(self.watch.report())

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop watching, and print the report so far."""
        self.on_train_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The windows, for Lightning's checkpoint."""
        if self.watch is not None:
            self.watch.flush()
            self._state = self.guard("saving readings", self.watch.state_dict) or self._state
        return self._state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self._state = state_dict

    def _close(self) -> None:
        if self.watch is not None:
            self.watch.close()
