"""One event of every kind, as a run would send them."""

from __future__ import annotations

from dataclasses import replace
from math import log

from pellucid.training import events

PREPARING = events.Preparing(what="reading the text")
STARTED = events.Started(
    step=0,
    total_steps=600,
    name="nano-20260101-120000",
    guessing_nats=7.6246,
    facts=(("text", "Files, 3.1 MB"), ("folder", "runs/nano"), ("seed", "1337")),
)
RESUMED = events.Resumed(step=200, total_steps=600, checkpoint="runs/nano/checkpoints/step-200")
EVALUATED = events.Evaluated(
    step=300,
    loss_nats=3.6215,
    over=90_000,
    unit="tokens",
    measures=(("bits_per_byte", 1.5129),),
    best=True,
)
EXAMPLE = events.Example(
    title="row 1 of the first update",
    rows=(
        ("Say", None, "itself"),
        (" hi", " Hello", "0 to 1"),
        (" Hello", ".", "0 to 2"),
        ("Add", None, "itself"),
        (" 2+2", "4", "3 to 4"),
    ),
    begins=((0, "example 7"), (3, "example 8")),
    note="2 places of padding are left out",
)
FIRST = events.Sampled(
    step=0, sentence="Return the", next_tokens=(("q", 0.002), ("z", 0.001)), continuation="qqz\nq"
)
SAMPLED = events.Sampled(
    step=300,
    sentence="Return the",
    next_tokens=((" number", 0.31), (" list", 0.22)),
    continuation=" number of\n\n  items",
)
SAVED = events.CheckpointSaved(step=300, path="runs/nano/checkpoints/step-300", best=True)
DRIFTED = events.Drifted(step=200, changes=(("optimiser.learning_rate", "0.001", "0.002"),))
NOTICED = events.Noticed(step=200, text="the last line of metrics.jsonl was cut short by a crash")
FINISHED = events.Finished(step=600, seconds=130.0)
INTERRUPTED = events.Interrupted(step=412)
STOPPED = events.StoppedNonFinite(
    step=412, what="gradient", where="decoder.blocks.1.attention.query.weight", aside="runs/nano/x"
)


def logged(step: int, loss: float = 4.0) -> events.Logged:
    """Ten updates up to `step`, the last of them clipped."""
    return events.Logged(
        step=step,
        total_steps=600,
        losses=(loss + 0.5,) * 5 + (loss - 0.5,) * 5,
        parts=(("log_z", (1.0,) * 10),),
        grad_norms=(0.5,) * 9 + (1.25,),
        clip_norm=1.0,
        learning_rate=3e-4,
        tokens=8192 * step,
        tokens_per_second=41_234.0,
        seconds_left=130.0,
        memory_bytes=1_234_000_000,
    )


LOGGED = logged(310)
WHOLE = (STARTED, FIRST, logged(300, 4.1), EVALUATED, SAMPLED, SAVED, LOGGED)
KINDS = (
    PREPARING,
    EXAMPLE,
    STARTED,
    RESUMED,
    DRIFTED,
    NOTICED,
    EVALUATED,
    SAMPLED,
    SAVED,
    FINISHED,
    INTERRUPTED,
    STOPPED,
    LOGGED,
)

#: The same run for another objective: pairs instead of tokens, parts of the loss, other measures.
PAIRS = events.Evaluated(
    step=300,
    loss_nats=0.6012,
    over=120,
    unit="pairs",
    measures=(("margin", 0.4321), ("preference_accuracy", 0.7333), ("kl_k3", 0.0123)),
    best=True,
)


def logged_pairs(step: int, loss: float = 0.65) -> events.Logged:
    """Ten updates of preference training up to `step`."""
    return replace(
        logged(step, loss),
        unit="pairs",
        parts=(
            ("margin", (0.25,) * 10),
            ("chosen_reward", (-0.125,) * 10),
            ("rejected_reward", (-0.375,) * 10),
            ("log_z", (9.0,) * 10),
            ("my_own", (3.0,) * 10),
        ),
    )


PAIRS_STARTED = replace(STARTED, guessing_nats=log(2), unit="pairs")
PREFERENCES = (PAIRS_STARTED, logged_pairs(300), PAIRS, SAVED, logged_pairs(310))
