"""Texts that a model generates for examples, with the expected texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.counting.temporaries import GENERATED_ROWS
from pellucid.generation import Beams, beam_search_ids, encode
from pellucid.tasks.task import GeneratedText, TaskInputs

Ids = Sequence[int]


def generate_texts(
    inputs: TaskInputs, pairs: Sequence[tuple[Ids, Ids]], beams: Beams, *, encodes: bool
) -> list[GeneratedText]:
    """Generate a text for each prompt; equal prompts get one text, with all of their references.

    Args:
        inputs: the model and its tokenizer.
        pairs: the token ids of each prompt, and of its expected text.
        beams: the search.
        encodes: whether an encoder reads the prompt and the text begins anew; else the text
            continues the prompt.
    """
    references_by_prompt: dict[tuple[int, ...], list[Ids]] = {}
    for prompt, reference in pairs:
        references_by_prompt.setdefault(tuple(prompt), []).append(reference)
    texts = dict(_search(inputs, sorted(references_by_prompt, key=len), beams, encodes=encodes))
    return [
        GeneratedText(
            prompt=_decode(inputs, prompt),
            text=_decode(inputs, texts[prompt]),
            references=tuple(dict.fromkeys(_decode(inputs, reference) for reference in references)),
        )
        for prompt, references in references_by_prompt.items()
    ]


def _search(
    inputs: TaskInputs, prompts: Sequence[tuple[int, ...]], beams: Beams, *, encodes: bool
) -> Iterator[tuple[tuple[int, ...], Ids]]:
    model, tokenizer = inputs.model, inputs.tokenizer
    # prompts of about the same length, so that there is little padding
    for start in range(0, len(prompts), GENERATED_ROWS):
        batch = prompts[start : start + GENERATED_ROWS]
        hypotheses = beam_search_ids(
            model,
            [[tokenizer.begin_id] for _ in batch] if encodes else batch,
            beams,
            end_id=tokenizer.end_id,
            encoded=encode(model, batch) if encodes else None,
        )
        for prompt, (best, *_) in zip(batch, hypotheses, strict=True):
            yield prompt, best.ids


def _decode(inputs: TaskInputs, ids: Ids) -> str:
    return inputs.tokenizer.decode(ids).strip()  # without the tokens of begin and end
