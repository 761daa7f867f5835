"""All texts of the report's pages, in English; every other file of this room reads them here."""

from __future__ import annotations

#: By key; {name} is a place for a value.
_MESSAGES = {
    "curves": "Curves",
    "samples": "Samples",
    "events": "Events",
    "environment": "Environment",
    "config": "Configuration",
    "sections": "sections",
    "learning": "How it learnt to speak",
    "facts": "The facts before the first step",
    "config-hint": "The whole of it: {command} with this as a file repeats the run.",
    "config-label": "the configuration as TOML",
    "footer": (
        "Made by pellucid {version} from the run's folder. This file is whole: it fetches "
        "nothing and runs no script."
    ),
    "title": "{run}: a run of pellucid",
    "of": "of {total:,}",
    "summary": "{step:,}{total} steps; {ended}.",
    "nats-per": "nats per {unit}",
    "steps": "steps",
    "its-loss": "its loss",
    "last-held-out": "last held-out",
    "training-loss": "training loss",
    "over-updates": "{unit}, {n} updates",
    "read": "read",
    "speed": "speed",
    "speed-at-end": "{unit} per second, at the end",
    "left": "left",
    "at-this-speed": "at this speed",
    "best-held-out": "best held-out",
    "step": "step {step:,}",
    "measure-at": "{title}, at step {step:,}",
    "held-out-loss": "held-out loss",
    "norm-before-clipping": "gradient norm before clipping",
    "learning-rate": "learning rate",
    "held-out": "held-out {title}",
    "started": "started, for {total:,} steps",
    "resumed-from": "resumed from {checkpoint}",
    "saved": "saved {checkpoint}",
    "saved-best": "saved {checkpoint} (best so far)",
    "user": "the user",
    "interrupted-saved": "interrupted by {signal}, and saved",
    "interrupted-unsaved": "interrupted by {signal}, nothing to save",
    "not-finite": "stopped: update {update} was not finite, {culprit}; set aside in {folder}",
    "culprit": "{what} of {where}",
    "finished-after": "finished; this stretch took {seconds:,.0f} s",
    "finished": "finished",
    "interrupted": "interrupted",
    "stopped": "stopped on a value that is not finite",
    "not-over": "not over: it is still training, or was ended from outside",
    "learnt-by-heart": (
        "Lower is better. Where held-out text gets worse while training text gets better, the"
        " text is being learnt by heart."
    ),
    "chart-held-out": "Held-out {title}",
    "chart-loss": "Loss, nats per {unit}",
    "chart-gradient": "Gradient norm, before clipping",
    "logarithmic": "A logarithmic axis.",
    "clipped-logarithmic": (
        "Gradients above the dashed line are scaled down to it. A logarithmic axis."
    ),
    "chart-rate": "Learning rate",
    "chart-rate-hint": "How far one update goes.",
    "chart-speed": "Speed, {unit} per second",
    "chart-speed-hint": "Of training alone.",
    "guessing-tokens": "ln V: guessing evenly",
    "guessing": "guessing evenly",
    "clipped-at": "clipped at {norm:g}",
    "line-at": "a line across at {value:.4g}: {name}",
    "resumed-after": "the run was resumed after step {step:,}",
    "nothing-measured": "{name}: nothing was measured",
    "curve-start": "{name} from {value:.4g}{unit} at step {step:,} ",
    "curve-range": (
        "to {end:.4g} at step {last:,}, lowest {low:.4g} at {low_at:,}, highest {high:.4g} at"
        " {high_at:,}"
    ),
    "axis": "step",
    "resumed": "resumed",
    "numbers": "{title}: the numbers",
    "means": "(means of {n} updates)",
    "hidden": "{n} values were not finite and are not drawn",
    "rows": "{n} of {total} rows",
    "value": "value",
    "example-label": "an example as a table",
    "example": "What is learnt from an example",
    "no-sample": "No sample was taken.",
    "shown": "{n} of {total} are shown.",
    "next": "next: {tokens}",
    "samples-hint": (
        "The same sentence, continued by the likeliest token each time; below it, the "
        "likeliest next tokens and their probabilities."
    ),
    "no-event": "Nothing is recorded.",
    "in-order": "in the order in which they happened",
    "event": "what",
    "not-measured": "not measured",
    "readings": "{n:,} readings, up to step {step:,}.",
    "not-calm": "What was not calm",
    "vital-signs": "{run}: vital signs",
    "word-at": "{sign}: {word}, at {value:.4g}",
    "threshold": "{word} at {limit:g}",
    "rule": "{rule}. Source: {source}.",
    "differs-from": "differs from the preset {preset} in {n}",
    "key": "key",
    "preset": "preset",
    "this-config": "this config",
    "plan": "plan.json: settings for the machine",
    "text": "text/text.json: the text, by its content hash",
    "checkpoint": "checkpoints/step-{step}/checkpoint.json: versions, checksums",
}


def message(key: str, **values: object) -> str:
    """A text of the report, with its places filled in.

    Args:
        key: Its key.
        values: The values of its places.
    """
    return _MESSAGES[key].format(**values)
