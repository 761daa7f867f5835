"""All styles of loops, by name. It knows no more of them."""

from __future__ import annotations

from benchmarks.diagnosis.elsewhere.styles import (
    accelerated,
    keras_like,
    lightning_module,
    nanogpt,
    plain,
    preferences,
    trainer,
    trl_trainers,
)
from benchmarks.diagnosis.elsewhere.styles.style import Style

_LISTED = (
    plain.STYLE,
    nanogpt.STYLE,
    trainer.STYLE,
    accelerated.STYLE,
    lightning_module.STYLE,
    keras_like.STYLE,
    preferences.REWARD,
    preferences.POLICY,
    preferences.DPO,
    trl_trainers.SFT,
    trl_trainers.DPO,
    trl_trainers.REWARD,
    trl_trainers.GRPO,
)
STYLES: dict[str, Style] = {style.name: style for style in _LISTED}
