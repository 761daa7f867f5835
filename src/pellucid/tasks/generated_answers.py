"""What a model writes for examples, beside what was to be written.

Comes in: a model, and ids to go on from or to read. Goes out: texts with their references. It does
not know objectives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.counting.temporaries import GENERATED_ROWS
from pellucid.generation import Beams, beam_search_ids, encode
from pellucid.tasks.task import TaskInputs, Written

Ids = Sequence[int]


def written(
    given: TaskInputs, pairs: Sequence[tuple[Ids, Ids]], beams: Beams, *, reads: bool
) -> list[Written]:
    """What is written for the first half of each pair; the second half is what was to be written.

    What is given more than once is written for once, and any of its second halves would do. With
    `reads`, an encoder reads the first half and the text begins anew; else it goes on from there.
    """
    references_by_prompt: dict[tuple[int, ...], list[Ids]] = {}
    for prompt, reference in pairs:
        references_by_prompt.setdefault(tuple(prompt), []).append(reference)
    texts = dict(_searched(given, sorted(references_by_prompt, key=len), beams, reads=reads))
    return [
        Written(
            given=_words(given, prompt),
            text=_words(given, texts[prompt]),
            references=tuple(dict.fromkeys(_words(given, reference) for reference in references)),
        )
        for prompt, references in references_by_prompt.items()
    ]


def _searched(
    task_inputs: TaskInputs, prompts: Sequence[tuple[int, ...]], beams: Beams, *, reads: bool
) -> Iterator[tuple[tuple[int, ...], Ids]]:
    model, tokenizer = task_inputs.model, task_inputs.tokenizer
    # of about the same length, so that little is padded
    for start in range(0, len(prompts), GENERATED_ROWS):
        batch = prompts[start : start + GENERATED_ROWS]
        hypotheses = beam_search_ids(
            model,
            [[tokenizer.begin_id] for _ in batch] if reads else batch,
            beams,
            end_id=tokenizer.end_id,
            encoded=encode(model, batch) if reads else None,
        )
        for prompt, (best, *_) in zip(batch, hypotheses, strict=True):
            yield prompt, best.ids


def _words(task_inputs: TaskInputs, ids: Ids) -> str:
    return task_inputs.tokenizer.decode(ids).strip()  # which leaves out where it begins and ends
