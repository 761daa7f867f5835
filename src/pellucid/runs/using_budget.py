"""Whether what a run is asked for fits into memory: texts to write, to read, to look into.

Comes in: a run, and how much is asked of it at once. Goes out: nothing, a warning, or a refusal. It
does not know how anything is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid import config
from pellucid.counting import looking_memory, reading_memory, weights_memory, writing_memory
from pellucid.generation import Beams, Sampling
from pellucid.runs.budget import check_memory
from pellucid.runs.load import Run


def check_opening(model: config.Transformer, *, force: bool = False) -> None:
    """Of a published model, before anything is built: its weights as float32.

    Raises:
        RunError: they do not fit.
    """
    check_memory(weights_memory(model), "this model needs", force=force)


def check_writing(run: Run, texts: Sequence[str], how: Sampling | Beams, *, force: bool) -> None:
    """What caches, logits and tokens of so many texts take.

    Raises:
        RunError: they do not fit.
    """
    if run.model.decoder is None:  # it writes nothing, and says so
        return
    estimate = writing_memory(
        run.config.model,
        texts=len(texts),
        beams=how.n_beams if isinstance(how, Beams) else 1,
        prompt=max((len(text.encode(errors="replace")) for text in texts), default=0),
        new_tokens=how.max_new_tokens,
    )
    check_memory(estimate, "writing this needs", device=run.model.device, force=force)


def check_reading(
    run: Run, *, sequences: int, length: int, lower: str, logits: bool, force: bool
) -> None:
    """What reading so many texts at once takes.

    Raises:
        RunError: it does not fit.
    """
    estimate = reading_memory(
        run.config.model, sequences=sequences, length=length, logits=logits, lower=lower
    )
    check_memory(estimate, "reading this needs", device=run.model.device, force=force)


def check_looking(run: Run, length: int, *, force: bool) -> None:
    """What seeing every number of a sentence takes.

    Raises:
        RunError: it does not fit.
    """
    estimate = looking_memory(run.config.model, length=length)
    check_memory(estimate, "looking into it needs", device=run.model.device, force=force)
