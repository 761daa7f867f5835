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
    Files,
    FromFile,
    LanguageHead,
    PolicyGradient,
    Run,
    SpanCorruption,
    StandardLibrary,
    Transformer,
    WordPiece,
    Words,
    continues_text,
)
from pellucid.counting.activations import Kernel, Pass, Precision, bytes_of, choose_kernel
from pellucid.counting.growth import growth
from pellucid.counting.memory import (
    SMALLER_MODEL,
    SMALLER_PASS,
    MemoryRow,
    activation_memory,
    state_memory,
)
from pellucid.counting.parameters import parameter_count
from pellucid.counting.temporaries import (
    EVALUATED_AT_ONCE,
    loss_bytes,
    reading_bytes,
    update_bytes,
)

#: The possible error of an estimate, as a share of it: see docs/budget.md.
UNCERTAINTY = 0.15
#: Python, torch and pellucid before any model; kernels and code that the first update loads.
PROCESS_BYTES = 240 * 2**20
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Facts about the machine, the data and other models, which no config has.

    Attributes:
        precision: Of matrix products.
        kernel: How attention is computed; None to choose the faster one.
        longest: The longest rows of the data in the encoder and the decoder, if they are shorter
            than the context.
        frozen_parameters: Parameters of a teacher or a reference in memory.
        frozen_token_bytes: Bytes per token that the teacher or reference reads, also if it is the
            trained model without its adapters.
        process: Bytes of the process before any model.
        keeps_freed: Whether the allocator keeps freed memory, as the command line sets it.
        watched: Whether vital signs or other watchers run.
    """

    precision: Precision = "float32"
    kernel: Kernel | None = None
    longest: tuple[int, int] | None = None
    frozen_parameters: int = 0
    frozen_token_bytes: int = 0
    process: int = PROCESS_BYTES
    keeps_freed: bool = True
    watched: bool = True


#: For no particular machine or data.
UNKNOWN = Conditions()


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by term; the first term is the process itself."""

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
    model, precision, trained = run.model, conditions.precision, run.trained
    size = pass_of(run, conditions.longest)
    kernel = conditions.kernel or choose_kernel(model, precision, sequences=size.sequences)
    activation_rows = activation_memory(
        model, size, precision=precision, kernel=kernel, trained=trained
    )
    rows = [
        MemoryRow("process", conditions.process, "measured"),
        MemoryRow("first update", FIRST_UPDATE_BYTES, "measured: kernels and code"),
        MemoryRow("data", *_data(run, conditions)),
        *state_memory(
            model, run.optimiser, trained=trained, frozen_parameters=conditions.frozen_parameters
        ),
        *activation_rows,
        MemoryRow("loss", *loss_bytes(model, run.objective, size, precision), SMALLER_PASS),
        MemoryRow("update", *update_bytes(run.optimiser, model, trained), SMALLER_MODEL),
        *_other_rows(run, size, conditions),
    ]
    state = bytes_of(precision) * size.sequences * max(size.encoder, size.decoder) * model.d_model
    pages = state // _PAGE_BYTES if conditions.keeps_freed else 0
    is_even = not conditions.longest and not _is_packed(run)
    share = _MOST_HOLES if is_even and pages else _HOLES + _HOLES_PER_PAGE * pages
    parts = run.training.accumulation
    gradients = rows[4].n_bytes if parts == 1 else 0  # with accumulation they exist all the time
    return MemoryEstimate((*rows, _holes(activation_rows, gradients, min(_MOST_HOLES, share))))


def least_memory(run: Run, conditions: Conditions = UNKNOWN) -> MemoryEstimate:
    """The least peak before the data are read: it assumes rows of one token."""
    run = replace(run, model=least_model(with_vocabulary(run).model))
    reads_text = isinstance(run.text.corpus, Files | StandardLibrary)
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
            return _with_vocabulary(run, rows)
        case Bytes() | Characters() | FromFile():
            return run
        case _:
            assert_never(run.text.tokenizer)


def _with_vocabulary(run: Run, rows: int) -> Run:
    return replace(run, model=replace(run.model, vocab_size=rows))


def pass_of(run: Run, longest: tuple[int, int] | None = None) -> Pass:
    """The sequences and lengths of one forward and backward pass of a run."""
    settings, objective, context = run.training, run.objective, run.model.context_length
    encoder, decoder = (min(length, context) for length in longest or (context, context))
    sequences = settings.batch_size // settings.accumulation
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
    size = pass_of(run, conditions.longest)
    tokens = run.training.accumulation * size.sequences * max(size.encoder, size.decoder)
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
    fewest = -(-run.training.evaluate_tokens // model.context_length)
    read = Pass(min(rows, fewest) if windows else rows, size.encoder, size.decoder)
    evaluated = reading_bytes(model, read, conditions.precision, logits=True)
    answers = isinstance(run.objective, DPO)  # one after the other
    frozen_bytes = (
        conditions.frozen_token_bytes * size.sequences * size.decoder // (2 if answers else 1)
    )
    extra = _HEAD_GRADIENTS[model.embedding.tied] * 4 * _head_numbers(run)
    watching = _WATCHING_BYTES if conditions.watched else 0
    n = parameter_count(model)
    smaller = "model.vocab_size or model.d_model"
    return [
        MemoryRow(
            "reading", frozen_bytes, "bytes per token x tokens of the model asked", SMALLER_PASS
        ),
        MemoryRow("drawn", _sampling_bytes(run), "answers x context x kept", "training.batch_size"),
        MemoryRow("head", extra, "its gradient, before it is one with others", smaller),
        MemoryRow("evaluation", *evaluated, "model.context_length or model.vocab_size"),
        MemoryRow("read back", 4 * n, "4 bytes x parameters, when the run is done", smaller),
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


def _is_packed(run: Run) -> bool:
    return isinstance(run.objective, SFT) and run.objective.packed


def _holes(activation_rows: list[MemoryRow], gradients: int, share: float) -> MemoryRow:
    """The holes in the heap; gradients replace activations and fill about half of them."""
    activations = sum(row.n_bytes for row in activation_rows)
    reused = min(gradients, int((1 + share) * activations)) // 2
    formula = f"{share} x activations (measured), less what gradients fill"
    return MemoryRow("allocator", max(0, int(share * activations) - reused), formula, SMALLER_PASS)
