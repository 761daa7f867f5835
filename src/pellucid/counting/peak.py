"""The peak memory of a run, estimated term by term from its config, without building anything.

Everything that depends on the model is counted: `memory` and `temporaries` have the formulas, also
for one of several machines. Three numbers are measured (`python -m benchmarks.budget`): the process
before any model, the code that the first update loads, and the unused part of the allocator's heap.
The heap is the least certain: blocks of many sizes come and go, and few fit into the holes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from pellucid.config import (
    DPO,
    SFT,
    BytePairs,
    Bytes,
    Characters,
    ClassificationHead,
    FromFile,
    LanguageHead,
    PolicyGradient,
    Rows,
    Run,
    SpanCorruption,
    Transformer,
    WordPiece,
    Words,
    continues_text,
)
from pellucid.counting.activations import Pass, bytes_of, choose_kernel
from pellucid.counting.conditions import UNKNOWN, Conditions
from pellucid.counting.growth import growth
from pellucid.counting.layout import cast_bytes, gathered_bytes
from pellucid.counting.memory import (
    SMALLER_MODEL,
    SMALLER_PASS,
    MemoryRow,
    activation_memory,
    snapshot_memory,
    state_memory,
)
from pellucid.counting.temporaries import (
    EVALUATED_AT_ONCE,
    loss_bytes,
    reading_bytes,
    update_bytes,
    whole_logits_bytes,
)

#: The possible error of an estimate, as a share of it: see docs/budget.md.
UNCERTAINTY = 0.15
#: Kernels and code that the first update loads.
FIRST_UPDATE_BYTES = 36 * 2**20
#: Text is read in pieces and ids are mapped from disk; watching the run takes little.
_DATA_BYTES = 8 * 2**20
_WATCHING_BYTES = 8 * 2**20
#: The unused heap, as a share of the activations. If the allocator keeps freed memory (the command
#: line), blocks of 2 MiB and more begin at whole pages of 2 MiB and leave larger holes. If rows
#: differ in length or are packed, few batches are the largest: then holes grow by page.
_PAGE_BYTES = 2**21
_HOLES, _HOLES_PER_PAGE, _MOST_HOLES = 0.6, 0.25, 1.5
#: Extra gradients of the head's matrix at one time. If it is also the embedding, these are the
#: embedding's gradient and the sum of both.
_HEAD_GRADIENTS = {True: 2, False: 1}
#: The unused part of a GPU's reserved memory, as a share of what comes and goes in an update:
#: fitted to one published run (docs/plan.md).
_GPU_HOLES = 0.087


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by term, in `rows`; the first term is the process itself."""

    rows: tuple[MemoryRow, ...]

    @property
    def n_bytes(self) -> int:
        """All of it: the peak of the process."""
        return sum(row.n_bytes for row in self.rows)

    @property
    def bytes_to_allocate(self) -> int:
        """The bytes that are still to be allocated."""
        return sum(row.n_bytes for row in self.rows[1:])

    @property
    def largest(self) -> MemoryRow:
        """The largest term that a setting can make smaller."""
        return max((row for row in self.rows if row.lower), key=lambda row: row.n_bytes)


def peak_memory(run: Run, conditions: Conditions = UNKNOWN) -> MemoryEstimate:
    """The peak of a training, with all of its terms."""
    size = pass_of(run, conditions.longest, conditions.layout.data)
    rows = _update_rows(run, size, conditions)
    if conditions.on_gpu:
        return MemoryEstimate(_gpu_rows(run, size, conditions, rows))
    activation_rows = [row for row in rows if row.part.endswith(("activations", "recomputed"))]
    estimate = [
        MemoryRow("process", conditions.process, "measured"),
        MemoryRow("first update", FIRST_UPDATE_BYTES, "measured: kernels and code"),
        *rows,
        *_other_rows(run, size, conditions),
    ]
    width = bytes_of(conditions.precision)
    state = width * size.sequences * max(size.encoder, size.decoder) * run.model.d_model
    pages = state // _PAGE_BYTES if conditions.keeps_freed else 0
    is_even = not conditions.longest and not _is_packed(run)
    share = _MOST_HOLES if is_even and pages else _HOLES + _HOLES_PER_PAGE * pages
    # with accumulation gradients exist all the time
    gradients = _bytes_of_part(rows, "gradients") if run.training.accumulation == 1 else 0
    holes = _holes(activation_rows, gradients, min(_MOST_HOLES, share))
    return MemoryEstimate((*estimate, holes))


def _update_rows(run: Run, size: Pass, conditions: Conditions) -> list[MemoryRow]:
    """What an update has in memory, on any device."""
    model, precision, layout = run.model, conditions.precision, conditions.layout
    rounding = run.training.rounding
    update = update_bytes(run.optimiser, model, run.trained, rounding)
    kernel = conditions.kernel or choose_kernel(model, precision, sequences=size.sequences)
    activation_rows = activation_memory(
        model,
        size,
        precision=precision,
        kernel=kernel,
        trained=run.trained,
        layout=layout,
        residual=conditions.residual_bytes,
    )
    if conditions.logits == "chunks":
        loss = loss_bytes(run, size, precision, on_gpu=conditions.on_gpu)
    else:
        fused, compiled = conditions.logits == "fused", conditions.compiled
        loss = whole_logits_bytes(model, size, precision, compiled=compiled, fused=fused)
    if layout.tensor > 1:
        loss = loss[0] // layout.tensor, f"{loss[1]} / {layout.tensor}"
    rows = [
        MemoryRow("data", *_data(run, conditions)),
        *state_memory(
            model,
            run.optimiser,
            trained=run.trained,
            frozen_parameters=conditions.frozen_parameters,
            layout=layout,
            rounding=rounding,
        ),
        *activation_rows,
        MemoryRow("loss", *loss, SMALLER_PASS),
        MemoryRow("update", *update, SMALLER_MODEL),
    ]
    if run.training.ema_decay is not None:
        n_bytes, formula = _bytes_of_part(rows, "gradients"), "as gradients: a moving average"
        rows.append(MemoryRow("average", n_bytes, formula, SMALLER_MODEL))
    if layout.shards > 1:
        rows.append(MemoryRow("gathered", *gathered_bytes(model, layout), SMALLER_MODEL))
    elif precision == "bfloat16" and rounding is None:
        rows.append(MemoryRow("casts", *cast_bytes(model, layout), SMALLER_MODEL))
    return rows


def _gpu_rows(
    run: Run, size: Pass, conditions: Conditions, rows: list[MemoryRow]
) -> tuple[MemoryRow, ...]:
    """The memory that a GPU reserves: freed blocks serve again, so an evaluation adds little."""
    others = {row.part: row for row in _other_rows(run, size, conditions)}
    passing = sum(
        row.n_bytes
        for row in rows
        if row.part.endswith(("activations", "recomputed", "loss", "gathered"))
    )
    evaluation = others["evaluation"]
    extra = replace(evaluation, n_bytes=max(0, evaluation.n_bytes - passing))
    formula = f"{_GPU_HOLES} x what comes and goes in an update (fitted)"
    holes = MemoryRow("allocator", int(_GPU_HOLES * passing), formula, SMALLER_PASS)
    process = MemoryRow("process", 0, "the processor holds it")
    return (process, *rows, others["reading"], others["drawn"], others["head"], extra, holes)


def least_memory(run: Run, conditions: Conditions = UNKNOWN) -> MemoryEstimate:
    """The least peak before the data are read: it assumes rows of one token."""
    run = replace(run, model=least_model(with_vocabulary(run).model))
    reads_text = not isinstance(run.text.corpus, Rows)
    longest = conditions.longest if reads_text else (1, 1)
    return peak_memory(run, replace(conditions, longest=longest))


def least_model(model: Transformer) -> Transformer:
    """The model with two tokens and two classes, the fewest, if the data decide these later."""
    head = model.head
    if isinstance(head, ClassificationHead) and head.classes is None:
        head = replace(head, classes=("one", "other"))
    return replace(model, vocab_size=model.vocab_size or 2, head=head)


def with_vocabulary(run: Run) -> Run:
    """The run with the size of its tokenizer's vocabulary, if the config has it."""
    if run.model.vocab_size is not None:
        return run
    match run.text.tokenizer:
        case BytePairs(vocab_size=rows) | Words(vocab_size=rows) | WordPiece(vocab_size=rows):
            return replace(run, model=replace(run.model, vocab_size=rows))
        case Bytes() | Characters() | FromFile():
            return run
        case _:
            assert_never(run.text.tokenizer)


def pass_of(run: Run, longest: tuple[int, int] | None = None, data: int = 1) -> Pass:
    """The sequences and lengths of one forward and backward pass, on one of `data` ranks."""
    settings, objective, context = run.training, run.objective, run.model.context_length
    encoder, decoder = (min(length, context) for length in longest or (context, context))
    sequences = settings.batch_size // max(settings.accumulation, data)
    match objective:
        case SpanCorruption(corrupted=share, mean_span=span):
            hidden, marks = share * encoder, share * encoder / span
            return Pass(sequences, int(encoder - hidden + marks) + 1, int(hidden + marks) + 1)
        case DPO():
            return Pass(2 * sequences, encoder, decoder)
        case _:
            return Pass(sequences, encoder, decoder)


def _data(run: Run, conditions: Conditions) -> tuple[int, str, str]:
    """A batch, and its masks if documents do not see each other."""
    size = pass_of(run, conditions.longest, conditions.layout.data)
    parts = max(1, run.training.accumulation // conditions.layout.data)
    tokens = parts * size.sequences * max(size.encoder, size.decoder)
    masks = 0
    if _is_packed(run) or run.training.documents_apart:
        width, n_layers = bytes_of(conditions.precision), sum(s.n_layers for s in run.model.stacks)
        masks = size.sequences * size.decoder**2 * (1 + width * n_layers)
    mask_term = " + sequences x T^2 x masks of all layers" if masks else ""
    n_bytes = _DATA_BYTES + 32 * tokens + masks
    return n_bytes, f"8 MiB + 32 bytes x tokens{mask_term}", "training.batch_size"


def _other_rows(run: Run, size: Pass, conditions: Conditions) -> list[MemoryRow]:
    """The memory of evaluations, checkpoints and watchers."""
    model = run.model
    windows = continues_text(run.objective)
    rows = EVALUATED_AT_ONCE if windows else size.sequences * run.training.accumulation
    windows_of_rank = model.context_length * conditions.layout.data
    fewest = -(-run.training.evaluate_tokens // windows_of_rank)
    read = Pass(min(rows, fewest) if windows else rows, size.encoder, size.decoder)
    evaluated = reading_bytes(model, read, conditions.precision, logits=True)
    answers = isinstance(run.objective, DPO)  # one after the other
    frozen_bytes = (
        conditions.frozen_token_bytes * size.sequences * size.decoder // (2 if answers else 1)
    )
    width = bytes_of(conditions.layout.gather) if conditions.layout.shards > 1 else 4
    extra = _HEAD_GRADIENTS[model.embedding.tied] * width * _head_numbers(run)
    watching = _WATCHING_BYTES if conditions.watched else 0
    averaged = run.training.ema_decay is not None
    smaller = "model.vocab_size or model.d_model"
    return [
        MemoryRow("reading", frozen_bytes, "bytes per token x tokens asked for", SMALLER_PASS),
        MemoryRow("drawn", _sampling_bytes(run), "answers x context x kept", "training.batch_size"),
        MemoryRow("head", extra, "its gradient, before it is one with others", smaller),
        MemoryRow("evaluation", *evaluated, "model.context_length or model.vocab_size"),
        snapshot_memory(model, run.optimiser, trained=run.trained, averaged=averaged),
        MemoryRow("watching", watching, "measured"),
    ]


def _sampling_bytes(run: Run) -> int:
    """The caches for sampling answers: to learn from, or to compare the two models."""
    if not isinstance(run.objective, DPO | PolicyGradient):
        return 0
    kinds = growth(run.model, precision="float32")
    cache_bytes = sum(
        kind.cache_bytes_per_token * run.model.context_length + kind.state_bytes for kind in kinds
    )
    return run.training.batch_size * cache_bytes


def _head_numbers(run: Run) -> int:
    """The weights of a trained head over the vocabulary."""
    if not isinstance(run.model.head, LanguageHead) or run.trained is not None:
        return 0
    return run.model.rows * run.model.head_width


def _bytes_of_part(rows: list[MemoryRow], part: str) -> int:
    return next(row.n_bytes for row in rows if row.part == part)


def _is_packed(run: Run) -> bool:
    return isinstance(run.objective, SFT) and run.objective.packed


def _holes(activation_rows: list[MemoryRow], gradients: int, share: float) -> MemoryRow:
    """The holes in the heap; gradients replace activations and fill about half of them."""
    activations = sum(row.n_bytes for row in activation_rows)
    reused = min(gradients, int((1 + share) * activations)) // 2
    formula = f"{share} x activations (measured), less what gradients fill"
    return MemoryRow("allocator", max(0, int(share * activations) - reused), formula, SMALLER_PASS)
