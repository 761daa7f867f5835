"""Refusals of texts to generate, read or explain that do not fit into free memory."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid import config
from pellucid.counting import looking_memory, reading_memory, writing_memory
from pellucid.counting.temporaries import EVALUATED_AT_ONCE, GENERATED_ROWS
from pellucid.data import Examples
from pellucid.generation import Beams, Sampling
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.memory_check import check_memory


def check_writing(
    run: Run, texts: Sequence[str], decoding: Sampling | Beams, *, force: bool
) -> None:
    """Check the memory of caches, logits and tokens of so many texts.

    Raises:
        RunError: they do not fit.
    """
    longest = max((len(text.encode(errors="replace")) for text in texts), default=0)
    check_written(run, len(texts), longest, decoding, force=force)


def check_written(
    run: Run, texts: int, prompt: int, decoding: Sampling | Beams, *, force: bool
) -> None:
    """The same for so many texts at once, after prompts of at most so many tokens.

    Args:
        run: the run.
        texts: how many texts.
        prompt: the tokens of the longest prompt.
        decoding: how to choose tokens, and how many.
        force: write them even if they do not fit.

    Raises:
        RunError: they do not fit.
    """
    if run.model.decoder is None:  # an encoder writes nothing, and refuses by itself
        return
    estimate = writing_memory(
        run.config.model,
        texts=texts,
        beams=decoding.n_beams if isinstance(decoding, Beams) else 1,
        prompt=prompt,
        new_tokens=decoding.max_new_tokens,
    )
    check_memory(estimate, "writing this needs", device=run.model.device, force=force)


def check_reading(
    run: Run, *, sequences: int, length: int, lower: str, logits: bool, force: bool
) -> None:
    """Check the memory of reading so many texts at once.

    Raises:
        RunError: it does not fit.
    """
    estimate = reading_memory(
        run.config.model, sequences=sequences, length=length, logits=logits, lower=lower
    )
    check_memory(estimate, "reading this needs", device=run.model.device, force=force)


def check_windows(run: Run, *, force: bool) -> None:
    """Check the memory of reading a text of any length in windows.

    Raises:
        RunError: it does not fit.
    """
    check_reading(
        run,
        sequences=EVALUATED_AT_ONCE,
        length=run.model.context_length,
        lower="nothing: read it on a machine with more memory",
        logits=True,
        force=force,
    )


def check_examples(run: Run, examples: Examples, beams: Beams | None, *, force: bool) -> None:
    """Check the memory of evaluating a run on rows, as many at once as in training.

    Some objectives need generated answers; with `beams` the run also generates texts.

    Raises:
        RunError: it does not fit.
    """
    rows = min(run.config.training.batch_size, len(examples))
    longest = min(examples.longest_row, run.model.context_length)
    check_reading(
        run,
        sequences=rows,
        length=longest,
        lower="the length of the rows",
        logits=True,
        force=force,
    )
    match run.config.objective:
        case config.PolicyGradient(max_new_tokens=n):
            check_written(run, rows, longest, Sampling(max_new_tokens=n), force=force)
        case config.DPO():
            check_written(run, rows, longest, Sampling(max_new_tokens=longest), force=force)
        case _:
            pass
    if beams is not None:
        check_written(run, min(GENERATED_ROWS, len(examples)), longest, beams, force=force)


def check_looking(run: Run, length: int, *, force: bool) -> None:
    """Check the memory of every number of a sentence.

    Raises:
        RunError: it does not fit.
    """
    estimate = looking_memory(run.config.model, length=length)
    check_memory(estimate, "looking into it needs", device=run.model.device, force=force)
