"""What happens in a run, as frozen values.

Comes in: facts. Goes out: events. They do not know who listens, nor how they are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """What is being done before a run can start; not recorded: there is no run yet.

    A `fleeting` one is of interest until the next: how far a long piece of work has come.
    """

    what: str
    step: int = 0
    fleeting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example as it will be trained: for each token its text, what is learnt there, what it
    sees.

    `begins` names the parts of it and the row at which each begins: where one packed example ends
    and the next one starts, or a source and what is written from it.
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
    """

    step: int
    total_steps: int
    name: str
    guessing_nats: float | None
    facts: tuple[tuple[str, str], ...]
    folder: str = ""
    unit: str = "tokens"
    #: The config and the plan as JSON, by name: a run without a checkpoint is compared with them.
    sealed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The run goes on from a checkpoint, after `step` steps."""

    step: int
    total_steps: int
    checkpoint: str
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """After `step` steps the run goes on otherwise than before, as the user allowed.

    Each change is the key of a config or a plan, its value before, and its value from here on.
    """

    step: int
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """What a resume mended, left out or could not check, in one sentence."""

    step: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """One update is done. Its numbers are still on the device: they come with `Logged`."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The updates since the last `Logged`, up to `step`: one entry per update in the lists.

    `parts` are what the objective names besides the loss, each by its name. The loss is a mean over
    terms of the kind `unit` (tokens, texts, pairs, prompts); `tokens` counts those terms.

    Units: nats per term; terms per second; seconds; bytes.
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

    @property
    def loss(self) -> float:
        """The mean loss over these updates."""
        return sum(self.losses) / len(self.losses)

    def part(self, name: str) -> tuple[float, ...]:
        """One part of each update's loss; empty where the objective has no such part."""
        return dict(self.parts).get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """How the model does on held-out data after `step` updates.

    `loss_nats` is what the best checkpoint is chosen by, over `over` terms of the kind `unit`
    (tokens, texts, pairs, prompts). `measures` are what else was measured, by name.
    """

    step: int
    loss_nats: float
    over: int
    unit: str
    measures: tuple[tuple[str, float], ...]
    best: bool

    def measure(self, name: str) -> float | None:
        """What else was measured, by name; None where it was not."""
        return dict(self.measures).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """How the fixed sentence goes on: the likeliest next tokens, and a greedy continuation."""

    step: int
    sentence: str
    next_tokens: tuple[tuple[str, float], ...]
    continuation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """The state after `step` updates is on disk."""

    step: int
    path: str
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All steps are done."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A signal stopped the run; the state after `step` updates is on disk, where there were any.

    `signal` is its name, such as SIGTERM; empty where the program itself stopped the run.
    """

    step: int
    signal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedNonFinite:
    """The update after `step` updates met a value that is not finite, and was skipped."""

    step: int
    what: str
    where: str
    aside: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What those who watch the update after which there were `step` say of it.

    Each sign is the latest of its kind: its id, its equation (1 to 5), its value, a word for it
    (calm, watch or sick), the update at which it was measured, and its place in the model, empty
    where it has none.
    `rows` are the five equations' names and words; the word is empty where nothing was measured.
    `speakers` names for each row the sign that speaks for it, and what its word follows from where
    it is not calm. `cost` is what watching has taken so far: seconds, those of the training beside
    them, and looks.
    """

    step: int
    signs: tuple[tuple[str, int, float, str, int, str], ...]
    rows: tuple[tuple[str, str], ...]
    speakers: tuple[tuple[str, str], ...] = ()
    cost: tuple[float, float, int] | None = None


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
Observer = Callable[[Event], None]
