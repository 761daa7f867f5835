"""`trace`: checks a run and a sentence, or a model and ids, and traces them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError
from pellucid.explain.losses.examples import encode_example, read_example
from pellucid.explain.losses.in_words import example_in_words
from pellucid.explain.sentence import Sentence, Spelling, encode_sentence
from pellucid.explain.trace_types import Trace
from pellucid.explain.tracing import ModelTrace
from pellucid.model import Transformer
from pellucid.model.packed.layers import refuse_packed
from pellucid.runs import Run
from pellucid.saved_runs.inference_memory import check_looking
from pellucid.saved_runs.requirements import kind_of
from pellucid.saved_runs.token_ids import TokenIds, read_text_of_ids


def trace(
    run: Run | Transformer,
    sentence: str | TokenIds | None = None,
    *,
    ids: TokenIds | None = None,
    target: str | None = None,
    rejected: str | None = None,
    example: str | Path | Mapping[str, Any] | None = None,
    reward: str | None = None,
    source_ids: TokenIds | None = None,
    force: bool = False,
) -> Trace:
    """Trace a sentence or an example in a run, or token ids in a run or a bare model.

    An example has the loss of the run's own objective, and so have all its gradients.

    Args:
        run: a run, or a bare model.
        sentence: the text, for a run with a tokenizer; or the ids.
        ids: (time,), the token ids.
        target: what the run should make of the sentence: the text of an encoder-decoder's decoder,
            the whole text behind masks, the class, or the answer to a prompt. A run that learnt
            from a reward samples an answer without it.
        rejected: the answer that is not preferred, for a run that learnt from preferences.
        example: a row as it is trained on, or a file with one, in place of a sentence.
        reward: what judges answers, for a prompt or an example of a run that learnt from a reward.
        source_ids: the ids of the encoder's text, for an encoder-decoder with ids.
        force: trace a run even if it may need more memory than is free.

    Raises:
        PellucidError: the sentence is empty, too long or unknown; ids have no row; or you passed a
            sentence for a model without a tokenizer, or both a sentence and ids.
    """
    refuse_packed(run.model if isinstance(run, Run) else run, "explanations")
    ids = _only_ids(sentence, ids)
    if ids is not None:
        if example is not None or rejected is not None:
            raise PellucidError("an example was given with ids: pass one of them")
        return _trace_ids(run, ids, source_ids, target, force=force)
    if not isinstance(run, Run):
        raise PellucidError(
            "a bare model has no tokenizer, so it reads no sentence: pass ids=[...], or a run, "
            "as pellucid.load gives it"
        )
    if source_ids is not None:
        raise PellucidError("source_ids were given without ids: pass the ids of both texts")
    words = _encode(run, sentence, target, rejected, example, reward)
    longest = max(len(words.ids), len(words.source_ids or ()))
    check_looking(run, longest, force=force)
    return ModelTrace(run.model, words, run=run)


def _encode(
    run: Run,
    sentence: TokenIds | str | None,
    target: str | None,
    rejected: str | None,
    example: str | Path | Mapping[str, Any] | None,
    reward: str | None,
) -> Sentence:
    if example is not None:
        if not (sentence is None and target is None and rejected is None):
            raise PellucidError("an example has its own texts: leave sentence and target out")
        row = example if isinstance(example, Mapping) else read_example(example)
        return encode_example(run, row, reward=reward)
    if not isinstance(sentence, str):
        raise PellucidError("nothing was given to trace: pass a sentence, an example or token ids")
    if target is None and rejected is None and reward is None:
        return encode_sentence(run, sentence)
    return example_in_words(run, sentence, target, rejected, reward)


def _only_ids(sentence: str | TokenIds | None, ids: TokenIds | None) -> TokenIds | None:
    """The ids, by place or by name; None if a sentence was given."""
    if sentence is not None and ids is not None:
        raise PellucidError("a sentence and ids were both given: pass one of them")
    return ids if sentence is None or isinstance(sentence, str) else sentence


def _trace_ids(
    run: Run | Transformer,
    ids: TokenIds,
    source_ids: TokenIds | None,
    target: str | None,
    *,
    force: bool,
) -> Trace:
    model = run.model if isinstance(run, Run) else run
    if target is not None:
        raise PellucidError(
            "a target was given with ids: ids are the decoder's text, and source_ids the encoder's"
        )
    token_ids = read_text_of_ids(ids, model, "ids")
    source = None if source_ids is None else read_text_of_ids(source_ids, model, "source_ids")
    if (source is None) == (kind_of(model) == "encoder-decoder"):
        missing = "source_ids are missing" if source is None else "source_ids were given"
        raise PellucidError(
            f"{missing}: an encoder-decoder reads source_ids and ids, any other model ids alone"
        )
    if isinstance(run, Run):
        check_looking(run, max(len(token_ids), len(source or ())), force=force)
    tokenizer = run.tokenizer if isinstance(run, Run) else None
    spell = str if tokenizer is None else Spelling(tokenizer).any_piece
    token_sentence = Sentence(
        text="",
        kind=kind_of(model),
        ids=token_ids,
        pieces=tuple(map(spell, token_ids)),
        source_ids=source,
        source_pieces=tuple(map(spell, source or ())),
    )
    return ModelTrace(model, token_sentence, run=run if isinstance(run, Run) else None)
