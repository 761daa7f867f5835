"""Watching `transformers.Trainer`: `Trainer(..., callbacks=[VitalsCallback()])`.

Comes in: the trainer's calls. Goes out: signs, printed at the end and wherever else they are
wanted. It does not know what is measured. It needs the package transformers, which nothing else
here loads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import ConfigError
from pellucid.reader import read_json_table
from pellucid.vitals.watch import watch
from pellucid.vitals.watching import Watch

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

#: Beside the trainer's own checkpoint: the windows that words depend on.
_FILE = "vitals.json"


class VitalsCallback(TrainerCallback):
    """Watches a `transformers.Trainer`. The watch itself is at hand as `callback.watch`.

    Args:
        show: whether the five rows are printed at the end.
        options: as for `pellucid.vitals.watch`: `max_overhead`, `log`, `thresholds`, `probe`,
            `reference`.
    """

    def __init__(self, *, show: bool = True, **options: Any) -> None:
        self._show = show
        self._options = options
        self.watch: Watch | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Begin to watch; where the training is resumed, with the windows of its checkpoint."""
        self._close()
        clip_norm = args.max_grad_norm or None
        self.watch = watch(given["model"], given["optimizer"], clip_norm=clip_norm, **self._options)
        if clip_norm is not None:
            # the optimiser's hook would see clipped gradients: the trainer's log knows more
            self.watch.told_elsewhere = {"gradient.norm"}
        kept = _checkpoint(args, state) / _FILE
        if state.global_step and kept.is_file():
            self.watch.load_state_dict(read_json_table(kept))
        self.watch.__enter__()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Take the norm of the gradients before they were clipped."""
        norm = (logs or {}).get("grad_norm")
        if self.watch is not None and norm is not None:
            self.watch.judge.norm(state.global_step, float(norm))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep the windows beside the checkpoint."""
        folder = _checkpoint(args, state)
        if self.watch is not None and folder.is_dir():
            self.watch.flush()
            text = json.dumps(self.watch.state_dict())
            (folder / _FILE).write_text(text, encoding="utf-8")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop watching, and say what was seen."""
        self._close()
        if self._show and self.watch is not None and state.is_world_process_zero:
            print(self.watch.report())

    def _close(self) -> None:
        if self.watch is not None:
            self.watch.__exit__(None, None, None)


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
