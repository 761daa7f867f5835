"""Everything that happens in a run, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """A step of the preparation of a run; it is not recorded, because the run does not exist yet.

    Attributes:
        what: the step, in words.
        step: always 0.
        fleeting: it tells the progress of a long step, and the next event replaces it.
    """

    what: str
    step: int = 0
    fleeting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example as it will be trained: the text of each token, its target, and what it sees.

    `begins` has the first row of each part, with the name of the part: of each packed example, or
    of the source and the target.

    Attributes:
        step: updates that are done.
        title: what the example is.
        rows: for each token its text, its target (None if it is not learnt), and what it sees.
        note: a sentence for the reader; may be empty.
    """

    step: int = 0
    title: str
    rows: tuple[tuple[str, str | None, str], ...]
    begins: tuple[tuple[int, str], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What will be run, and where; `facts` are lines for a person, in order.

    `guessing_nats` is the loss of guessing evenly, for one `unit`; None where guessing has none.

    Attributes:
        step: updates that are done: 0, or those of the run before.
        total_steps: updates of the whole run.
        name: of the run.
        folder: the run's folder.
        sealed: the config and the plan as JSON, by name: a run without a checkpoint is compared
            with them.
    """

    step: int
    total_steps: int
    name: str
    guessing_nats: float | None
    facts: tuple[tuple[str, str], ...]
    folder: str = ""
    unit: str = "tokens"
    sealed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The run continues from a checkpoint, after `step` steps.

    Attributes:
        total_steps: updates of the whole run.
        checkpoint: the name of the checkpoint.
        folder: the run's folder.
    """

    step: int
    total_steps: int
    checkpoint: str
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """After `step` steps the run continues with changes that the user allowed.

    `changes` have the key of a config or a plan, its value before, and its value from here on.
    """

    step: int
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """One sentence, `text`: what a resume after `step` updates repaired, left out or could not
    check; why a run ends early.
    """

    step: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """One update is done. Its numbers are still on the device: they come with `Logged`.

    `saving` tells that this state is being saved; `CheckpointSaved` comes when it is on the disk.

    Attributes:
        step: updates that are done.
    """

    step: int
    saving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The updates since the last `Logged`, up to `step`: one entry per update in the lists.

    `parts` are the other numbers of the objective, by name. The loss is a mean over terms of the
    kind `unit` (tokens, texts, pairs, prompts); `tokens` counts these terms.

    Units: nats per term; terms per second; seconds; bytes.

    Attributes:
        total_steps: updates of the whole run.
        losses: the loss of each update.
        grad_norms: the norm of all gradients of each update, before clipping.
        clip_norm: the largest norm that is let through; None without clipping.
        learning_rate: of the last update.
        tokens_per_second: terms per second since the last event.
        seconds_left: to the end of the run.
        memory_bytes: the peak so far; None if the machine does not tell.
        ranks: of each of several: terms per second, seconds of waiting (None on a GPU), bytes.
    """

    step: int
    total_steps: int
    losses: tuple[float, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]
    grad_norms: tuple[float, ...]
    clip_norm: float | None
    learning_rate: float
    tokens: int
    tokens_per_second: float
    seconds_left: float
    memory_bytes: int | None
    unit: str = "tokens"
    ranks: tuple[tuple[float, float | None, int | None], ...] = ()

    @property
    def loss(self) -> float:
        """The mean loss over these updates."""
        return sum(self.losses) / len(self.losses)

    def part(self, name: str) -> tuple[float, ...]:
        """One part of each update's loss; empty if the objective has no such part."""
        return dict(self.parts).get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The evaluation of the model on held-out data after `step` updates.

    `loss_nats` decides which checkpoint is the best. It is a mean over `over` terms of the kind
    `unit` (tokens, texts, pairs, prompts). `measures` are all other measures, by name.
    `standard_error` is of `loss_nats`, over windows or batches; old runs do not have it.

    Attributes:
        best: whether the loss is the lowest so far.
    """

    step: int
    loss_nats: float
    over: int
    unit: str
    measures: tuple[tuple[str, float], ...]
    best: bool
    standard_error: float | None = None

    def measure(self, name: str) -> float | None:
        """Another measure, by name; None if it was not taken."""
        return dict(self.measures).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The fixed sentence: its likeliest next tokens, and a greedy continuation.

    Attributes:
        step: updates that are done.
        sentence: the fixed sentence.
        next_tokens: the likeliest next tokens with their probabilities, the likeliest first.
        continuation: what the model writes after the sentence.
    """

    step: int
    sentence: str
    next_tokens: tuple[tuple[str, float], ...]
    continuation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """The state after `step` updates is on disk; meanwhile the run may have made more updates.

    Attributes:
        path: the checkpoint's folder.
        best: whether its held-out loss is the lowest so far.
    """

    step: int
    path: str
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All `step` updates are done, after `seconds` of training.

    `joules` is what the machine used meanwhile; None if it does not count its energy.
    """

    step: int
    seconds: float
    joules: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A signal stopped the run; the state after `step` updates is on disk, unless `step` is 0.

    `signal` is its name, such as SIGTERM; it is empty if the program itself stopped the run.
    """

    step: int
    signal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedNonFinite:
    """The update after `step` updates met a value that is not finite, and was skipped.

    Attributes:
        what: the value: the loss, or the norm of the gradients.
        where: the first module whose output was not finite.
        aside: the folder with the batch.
    """

    step: int
    what: str
    where: str
    aside: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The vital signs of the update that made `step`.

    Attributes:
        step: how many updates are done.
        signs: the latest sign of each kind: its id, its equation (1 to 5), its value, a word (calm,
            watch or sick), the update of the measurement, and its place in the model or "".
        rows: the names of the five equations, each with a word; "" if nothing was measured.
        speakers: for each row the sign that decides its word, and the reason unless it is calm.
        cost: the cost of watching so far: its seconds, the seconds of training, the readings.
    """

    step: int
    signs: tuple[tuple[str, int, float, str, int, str], ...]
    rows: tuple[tuple[str, str], ...]
    speakers: tuple[tuple[str, str], ...] = ()
    cost: tuple[float, float, int] | None = None


#: Everything that a training tells its observers.
Event = (
    Preparing
    | Example
    | Started
    | Resumed
    | Drifted
    | Noticed
    | StepFinished
    | Logged
    | Evaluated
    | Sampled
    | CheckpointSaved
    | Vitals
    | Finished
    | Interrupted
    | StoppedNonFinite
)
#: A function that is called with every event.
Observer = Callable[[Event], None]
