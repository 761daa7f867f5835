"""What an objective needs besides a model: batches, an evaluation, a sample to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid import config
from pellucid.batches import Batch
from pellucid.data import Examples, PreparedData
from pellucid.evaluation.metrics import Classified
from pellucid.evaluation.objective import EvaluateExamples
from pellucid.generation import Beams
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.saved_runs.folder import RunFolder
from pellucid.tokenizers import Tokenizer
from pellucid.training import Example, HeldOut, Precision, Sampled

Fact = tuple[str, str]
#: Classifies examples, and measures how often that is right.
MeasureClasses = Callable[[Examples, Precision], Classified]


@dataclass(frozen=True, slots=True)
class Reward:
    """A function that judges the answer to a row's prompt, under the name that the user gave.

    Attributes:
        name: as the user gave it.
        function: of the row and the answer; returns a number.
    """

    name: str
    function: Callable[[dict[str, object], str], float]

    def __call__(self, row: dict[str, object], answer: str) -> float:
        """The reward of one answer."""
        return self.function(row, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInputs:
    """Everything that a task is made of: the config, the model, the prepared data.

    `answer` takes the place of the first answer that a policy samples; None samples all.

    Attributes:
        run: the config.
        folder: of the run.
        model: what is trained.
        tokenizer: of the run.
        data: prepared, both sides.
        reward: what judges answers, if the objective needs it.
    """

    run: config.Run
    folder: RunFolder
    model: Transformer
    tokenizer: Tokenizer
    data: PreparedData
    reward: Reward | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedText:
    """A prompt or a source, the text that a model generated for it, and the expected texts.

    Attributes:
        prompt: or source.
        text: what the model wrote.
        references: what was expected.
    """

    prompt: str
    text: str
    references: tuple[str, ...]


#: Generates a text for each example, by a search.
GenerateTexts = Callable[[Examples, Beams], list[GeneratedText]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An objective with its data.

    `batch` takes a place in the data and a number of rows. It depends on nothing else, except that
    answers which the model generates depend on its weights too. `tokens_per_row` is a mean.

    Attributes:
        objective: the loss.
        own_rows: some rows of a batch, read alone, and the terms that all its rows count; None if
            these follow only from all rows.
        rows_per_epoch: rows of the training data.
        evaluate: evaluates the model while it trains, on held-out data or a part of them.
        sample: shows after a number of steps how the model continues a fixed text.
        guessing_nats: the loss of a model that guesses evenly; None if that has no meaning.
        unit: the terms that the loss is a mean over.
        facts: lines about the data for the run's summary, in order.
        example: one example as it will be trained.
        evaluate_examples: evaluates the model on any examples, if the data are rows.
        measure_classes: measures the classification of examples, if the objective has classes.
        generate: generates texts for examples, if these have expected texts.
    """

    objective: Objective
    batch: Callable[[int, int], Batch]
    rows_per_epoch: int
    tokens_per_row: float
    evaluate: Callable[[Precision], HeldOut]
    sample: Callable[[int], Sampled | None]
    guessing_nats: float | None
    unit: str = "tokens"
    facts: tuple[Fact, ...] = field(default=())
    example: Example | None = None
    evaluate_examples: EvaluateExamples | None = None
    measure_classes: MeasureClasses | None = None
    generate: GenerateTexts | None = None
    own_rows: Callable[[int, int, slice], tuple[Batch, int]] | None = None
