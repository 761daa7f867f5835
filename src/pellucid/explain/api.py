"""`trace`: checks a run and a sentence, or a model and ids, and traces them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.sentence import Sentence, encode_sentence
from pellucid.explain.trace_types import Trace
from pellucid.explain.tracing import ModelTrace
from pellucid.model import Transformer
from pellucid.runs import Run
from pellucid.saved_runs.inference_memory import check_looking
from pellucid.saved_runs.requirements import kind_of


def trace(
    run: Run | Transformer,
    sentence: str | None = None,
    *,
    ids: Sequence[int] | Tensor | None = None,
    target: str | None = None,
    source_ids: Sequence[int] | Tensor | None = None,
    force: bool = False,
) -> Trace:
    """Trace a sentence in a run, or token ids in a bare model.

    Args:
        run: a run, or a bare model.
        sentence: the text, for a run.
        ids: (time,), the token ids, for a bare model.
        target: the text of the decoder, for an encoder-decoder.
        source_ids: the ids of the encoder's text, for an encoder-decoder with `ids`.
        force: trace a run even if it may need more memory than is free.

    Raises:
        PellucidError: the sentence is empty, too long or unknown; ids have no row; or you passed a
            sentence for a bare model.
    """
    if isinstance(run, Run) and sentence is not None and ids is None:
        words = encode_sentence(run, sentence, target)
        longest = max(len(words.ids), len(words.source_ids or ()))
        check_looking(run, longest, force=force)
        return ModelTrace(run.model, words, run=run)
    model = run.model if isinstance(run, Run) else run
    if ids is None:
        raise PellucidError(
            "a bare model has no tokenizer, so it reads no sentence: pass ids=[...], or a run, "
            "as pellucid.load gives it"
        )
    token_ids = _ids(ids, model, "ids")
    source = None if source_ids is None else _ids(source_ids, model, "source_ids")
    if (source is None) == (kind_of(model) == "encoder-decoder"):
        missing = "source_ids are missing" if source is None else "source_ids were given"
        raise PellucidError(
            f"{missing}: an encoder-decoder reads source_ids and ids, any other model ids alone"
        )
    token_sentence = Sentence(
        text="",
        kind=kind_of(model),
        ids=token_ids,
        pieces=tuple(map(str, token_ids)),
        source_ids=source,
        source_pieces=tuple(map(str, source or ())),
    )
    return ModelTrace(model, token_sentence, run=run if isinstance(run, Run) else None)


def _ids(ids: Sequence[int] | Tensor, model: Transformer, name: str) -> tuple[int, ...]:
    token_ids = torch.as_tensor(ids)
    token_ids = token_ids[0] if token_ids.ndim == 2 and len(token_ids) == 1 else token_ids
    rows = model.token_embedding.num_embeddings
    if token_ids.ndim != 1 or not len(token_ids) or token_ids.is_floating_point():
        raise PellucidError(f"{name} must be the ids of one text, was {tuple(token_ids.shape)}")
    if int(token_ids.min()) < 0 or int(token_ids.max()) >= rows:
        raise PellucidError(f"{name} must lie between 0 and {rows - 1}, the rows of the embedding")
    if len(token_ids) > model.context_length:
        raise PellucidError(
            f"{name} has {len(token_ids):,} tokens, but the model reads at most "
            f"{model.context_length:,}: pass fewer"
        )
    return tuple(int(token_id) for token_id in token_ids)
