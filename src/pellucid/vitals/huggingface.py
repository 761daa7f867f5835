"""Watching `transformers.Trainer`: `Trainer(..., callbacks=[VitalsCallback()])`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table
from pellucid.training import Guard, guarded
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.watch import checked, watch

if TYPE_CHECKING:
    TrainerCallback = object
else:
    try:
        from transformers import TrainerCallback
    except ImportError as missing:
        raise ConfigError(
            f"this callback is for transformers.Trainer, and transformers cannot be imported "
            f"({missing}): pip install transformers, or watch your own loop with "
            "pellucid.vitals.watch(model, optimizer)"
        ) from None

#: In the folder of a checkpoint: the windows that words depend on.
_FILE = "vitals.json"
#: Settings of TRL's trainers that causes read.
_SETTINGS = ("beta", "temperature")


class VitalsCallback(TrainerCallback):
    """Watches a `transformers.Trainer`; `callback.watch` is the watch itself.

    Args:
        show: Whether to print the five rows at the end.
        options: As for `pellucid.vitals.watch`: `max_overhead`, `log`, `thresholds`, `probe`,
            `reference`.
    """

    def __init__(self, *, show: bool = True, **options: Any) -> None:
        self._show = show
        self._options = checked(options)
        self.watch: Watch | None = None
        self.guard = Guard()

    @guarded("the whole training")
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch; a resumed training restores the windows of its checkpoint."""
        self._close()
        self.watch = None
        clip_norm = args.max_grad_norm or None
        self.watch = watch(
            kwargs["model"], kwargs["optimizer"], clip_norm=clip_norm, **self._options
        )
        if clip_norm is not None:
            # the optimiser's hook would see clipped gradients; the trainer's log has the full norm
            self.watch.trainer_signs = {"gradient.norm"}
        self.watch.first_call.planned_updates = state.max_steps if state.max_steps > 0 else None
        self.guard("earlier readings", self._recall, self.watch, args, state)
        settings = {name: getattr(args, name, None) for name in _SETTINGS}
        numbers = {name: float(v) for name, v in settings.items() if isinstance(v, int | float)}
        self.watch.state.judge.record.log(state.global_step, numbers)
        self.watch.__enter__()

    @staticmethod
    def _recall(new_watch: Watch, args: Any, state: Any) -> None:
        path = _checkpoint(args, state) / _FILE
        if state.global_step and path.is_file():
            new_watch.load_state_dict(read_json_table(path))

    @guarded("gradient.norm")
    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Take the norm of the gradients before clipping, and the trainer's own numbers."""
        if self.watch is None or not logs:
            return
        norm = logs.get("grad_norm")
        if norm is not None:
            self.watch.judge.norm(state.global_step, float(norm))
        numbers = {name: float(v) for name, v in logs.items() if isinstance(v, int | float)}
        self.watch.state.judge.record.log(state.global_step, numbers)

    @guarded("saving readings")
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the windows in the folder of the checkpoint."""
        folder = _checkpoint(args, state)
        if self.watch is not None and folder.is_dir():
            self.watch.flush()
            text = json_text(self.watch.state_dict())
            (folder / _FILE).write_text(text, encoding="utf-8")

    @guarded("the report")
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop watching, and print the report."""
        self._close()
        if self._show and self.watch is not None and state.is_world_process_zero:
            print(self.watch.report())

    def _close(self) -> None:
        if self.watch is not None:
            self.watch.close()


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
