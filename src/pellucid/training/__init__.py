"""The loop: built parts in, a trained state and events out.

Must not know: who listens, how the parts were built.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.training.event_records import from_record, to_record
from pellucid.training.events import (
    CheckpointSaved,
    Drifted,
    Evaluated,
    Event,
    Example,
    Finished,
    Interrupted,
    Logged,
    Noticed,
    Observer,
    Preparing,
    Resumed,
    Sampled,
    Started,
    StepFinished,
    StoppedNonFinite,
    Vitals,
)
from pellucid.training.growth import mean_rows
from pellucid.training.guard import Guard, error_line, guarded, silently
from pellucid.training.interrupts import Interrupts
from pellucid.training.job import HeldOut, Job, Progress, Watcher
from pellucid.training.loop import train
from pellucid.training.randomness import (
    generator_states,
    generators_kept,
    restore_generators,
    seed_step,
)
from pellucid.training.step import Precision, accumulate, autocast, split_batch, to_device, update
from pellucid.training.stepper import Stepper, TrainedState
from pellucid.training.timetable import Clock, Replan, Timetable

__all__ = [
    "CheckpointSaved",
    "Clock",
    "Drifted",
    "Evaluated",
    "Event",
    "Example",
    "Finished",
    "Guard",
    "HeldOut",
    "Interrupted",
    "Interrupts",
    "Job",
    "Logged",
    "Noticed",
    "Observer",
    "Precision",
    "Preparing",
    "Progress",
    "Replan",
    "Resumed",
    "Sampled",
    "Started",
    "StepFinished",
    "Stepper",
    "StoppedNonFinite",
    "Timetable",
    "TrainedState",
    "Vitals",
    "Watcher",
    "accumulate",
    "autocast",
    "error_line",
    "from_record",
    "generator_states",
    "generators_kept",
    "guarded",
    "mean_rows",
    "restore_generators",
    "seed_step",
    "silently",
    "split_batch",
    "to_device",
    "to_record",
    "train",
    "update",
]

_take_old_words(__name__, globals())
