"""Asking a run that was tuned to answer.

A prompt goes through the template that the run was tuned with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from pellucid.data import ChatTemplate, template_for
from pellucid.errors import PellucidError
from pellucid.generation import Continuation, Sampling, generate_after
from pellucid.saved_runs.inference_memory import check_writing
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import kind_of

#: By default you get the model's likeliest answer, the same each time.
GREEDY = Sampling(temperature=0.0)


def answer(
    run: Run,
    prompts: str | Sequence[str],
    sampling: Sampling = GREEDY,
    *,
    when_outgrown: Callable[[], None] | None = None,
    force: bool = False,
) -> list[Continuation]:
    """The answer of a run to each prompt; prompts do not see each other.

    Args:
        run: the run.
        prompts: one prompt, or several.
        sampling: how to choose tokens; by default always the likeliest.
        when_outgrown: called once, when a text first outgrows the model's context.
        force: answer even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: a number in `sampling` is out of range.
        PellucidError: the model is no decoder, or a prompt fills its context.
    """
    if kind_of(run.model) != "decoder":
        raise PellucidError(
            f"this model is an {kind_of(run.model)}, and answers no prompts: an encoder-decoder "
            "translates with pellucid translate, an encoder names classes with pellucid classify"
        )
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    tokenizer = run.require_tokenizer()
    check_writing(run, texts, sampling, force=force)
    with closing(ChatTemplate(template_for(None, run.folder), tokenizer)) as template:
        ids = [
            template.prompt(f"prompt {place}", [{"role": "user", "content": text}])
            for place, text in enumerate(texts, start=1)
        ]
    for place, row in enumerate(ids, start=1):
        if len(row) >= run.model.context_length:
            raise PellucidError(
                f"prompt {place} has {len(row):,} tokens with its template, and the context of "
                f"{run.model.context_length:,} has no room for an answer: shorten it"
            )
    return generate_after(run.model, tokenizer, ids, sampling, when_outgrown=when_outgrown)
