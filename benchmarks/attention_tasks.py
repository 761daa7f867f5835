r"""The measurements of one kind of attention, in a process of its own.

    python -m benchmarks.attention_tasks \
        '{"task": "recall", "kind": "linear", "seeds": [1], "steps": 300}'

Comes in: a task as JSON. Goes out: the measurements, as JSON on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, TokenBatch
from pellucid.data import next_token_batches, open_prepared
from pellucid.evaluation.held_out_text import evaluate_tokens
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.runs.prepare_text import ready_text
from pellucid.training.step import update

KINDS = ("softmax", "window", "linear", "memory", "frozen")
OPTIMISER = config.Muon(
    learning_rate=0.02,
    momentum=0.95,
    weight_decay=0.0,
    newton_schulz_steps=5,
    rest=config.AdamW(learning_rate=0.003, betas=(0.9, 0.99), eps=1e-10, weight_decay=0.0),
)
SCHEDULE = config.Linear(warm_up=0.07, final=0.0)
CLIP_NORM = 1.0

#: Both models: 2 layers; the others' d_ff is chosen so that their parameters match softmax's.
RECALL = {"d_model": 64, "n_heads": 2, "d_head": 32, "d_ff": 256, "window": 8, "chunk": 8}
LANGUAGE = {"d_model": 96, "n_heads": 3, "d_head": 32, "d_ff": 384, "window": 64, "chunk": 16}
LINEAR_CHUNK = 64
RECALL_CONTEXT, LANGUAGE_CONTEXT = 256, 256

N_KEYS, N_VALUES, N_PAIRS = 16, 16, 4
FILLER = N_KEYS + N_VALUES
LONGEST_TRAINED = 32
DISTANCES = (0, 4, 8, 16, 32, 64, 128, 192)
RECALL_ROWS, LANGUAGE_ROWS = 32, 8
TEXT = config.Text(
    corpus=config.StandardLibrary(),
    tokenizer=config.BytePairs(vocab_size=1024),
    held_out=0.05,
    drop_duplicates=False,
)


def attention_of(kind: str, size: dict[str, int]) -> config.Attention:
    n_heads, d_head, window = size["n_heads"], size["d_head"], size["window"]
    if kind in ("softmax", "window"):
        return config.MultiHead(
            n_heads=n_heads,
            n_kv_heads=n_heads,
            d_head=d_head,
            qkv_bias=False,
            out_bias=False,
            qk_norm=None,
            dropout=0.0,
            window=window if kind == "window" else None,
        )
    if kind == "linear":
        return config.LinearAttention(
            n_heads=n_heads, d_head=d_head, qkv_bias=False, out_bias=False, chunk=LINEAR_CHUNK
        )
    return config.NeuralMemory(
        n_heads=n_heads,
        d_head=d_head,
        window=window,
        chunk=size["chunk"],
        frozen=kind == "frozen",
    )


def build_config(
    kind: str, size: dict[str, int], *, vocab_size: int, context_length: int, d_ff: int
) -> config.Transformer:
    return config.Transformer(
        vocab_size=vocab_size,
        context_length=context_length,
        d_model=size["d_model"],
        embedding=config.Embedding(tied=False, scaled=False),
        decoder=config.Stack(
            n_layers=2,
            positions=config.Rotary(base=10_000.0),
            attention=attention_of(kind, size),
            feed_forward=config.MLP(d_ff=d_ff, activation="relu_squared", bias=False),
            norm=config.RMSNorm(eps=1e-6),
            residual=config.PreNorm(),
            final_norm=True,
            dropout=0.0,
        ),
        initialisation=config.Initialisation(
            weights=config.Normal(std=0.1), embedding_std=0.5, outputs="zero"
        ),
    )


def equal_model(
    kind: str, size: dict[str, int], *, vocab_size: int, context_length: int, seed: int
) -> Transformer:
    """The model of a kind, its feed-forward so wide that it has as many parameters as softmax."""

    def build(kind: str, d_ff: int) -> Transformer:
        shape = {"vocab_size": vocab_size, "context_length": context_length, "d_ff": d_ff}
        return assemble(build_config(kind, size, **shape), seed=seed)

    n_wanted = count(build("softmax", size["d_ff"]))
    n_more = count(build(kind, size["d_ff"])) - n_wanted
    d_ff = size["d_ff"] - round(n_more / (2 * 2 * size["d_model"]))
    model = build(kind, d_ff)
    assert abs(count(model) / n_wanted - 1) < 0.01
    return model


def count(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def train(model: Transformer, batches: Iterator[TokenBatch], steps: int) -> float:
    """The mean loss of the last tenth of the updates."""
    optimiser = assemble_optimiser(OPTIMISER, model.named_parameters())
    factor = assemble_schedule(SCHEDULE, total=steps)
    objective, losses = NextToken(), []
    blocked = torch.zeros(())
    for step in range(steps):
        numbers = update(
            model,
            objective,
            optimiser,
            next(batches),
            factor=factor(step),
            clip_norm=CLIP_NORM,
            blocked=blocked,
            accumulation=1,
            device=model.device,
            precision="float32",
        )
        blocked = numbers.blocked
        losses.append(numbers.parts["loss_nats"])
    if bool(blocked):
        raise SystemExit("a value was not finite")
    last = losses[-max(1, steps // 10) :]
    return float(torch.stack(last).mean())


def pairs_and_questions(rows: int, distance: int, generator: torch.Generator) -> TokenBatch:
    """`N_PAIRS` keys, each with its value; filler; each key again, to which the model answers.

    `distance`: tokens of filler. Keys are asked for in another order; only values are targets.
    """
    keys = torch.rand(rows, N_KEYS, generator=generator).argsort(1)[:, :N_PAIRS]
    values = torch.randint(N_KEYS, FILLER, (rows, N_PAIRS), generator=generator)
    order = torch.rand(rows, N_PAIRS, generator=generator).argsort(1)
    pairs = torch.stack((keys, values), dim=2).flatten(1)
    questions = torch.stack((keys.gather(1, order), values.gather(1, order)), dim=2).flatten(1)
    filler = torch.full((rows, distance), FILLER)
    ids = torch.cat((pairs, filler, questions), dim=1)
    targets = torch.full_like(ids, IGNORED)
    targets[:, -2 * N_PAIRS :: 2] = ids[:, -2 * N_PAIRS + 1 :: 2]
    return TokenBatch(ids=ids, targets=targets, n_supervised=rows * N_PAIRS)


def questions(generator: torch.Generator) -> Iterator[TokenBatch]:
    """Batches for training, each at a distance drawn evenly."""
    while True:
        distance = int(torch.randint(LONGEST_TRAINED + 1, (), generator=generator))
        yield pairs_and_questions(RECALL_ROWS, distance, generator)


def right(model: Transformer, distance: int, *, rows: int = 128) -> float:
    """The share of values told right; by chance 1 / N_VALUES, 1 / N_PAIRS for who knows the set."""
    batch = pairs_and_questions(rows, distance, torch.Generator().manual_seed(10_000 + distance))
    is_question = batch.targets != IGNORED
    with torch.no_grad():
        answers: Tensor = model(batch.ids).argmax(-1)
    return float((answers == batch.targets)[is_question].float().mean())


def recall(*, kind: str, seed: int, steps: int) -> dict[str, Any]:
    """How much is recalled at each distance, after training at distances up to a limit."""
    model = equal_model(
        kind, RECALL, vocab_size=FILLER + 1, context_length=RECALL_CONTEXT, seed=seed
    )
    loss = train(model, questions(torch.Generator().manual_seed(seed)), steps)
    shares = {str(distance): right(model, distance) for distance in DISTANCES}
    result: dict[str, Any] = {"parameters": count(model), "loss_nats": loss, "right": shares}
    if kind == "memory":  # the same trained weights, without learning at test time
        for block in model.decoder.blocks:
            block.attention.frozen = True
        result["right_when_frozen"] = {str(d): right(model, d) for d in DISTANCES}
    return result


def language(*, kind: str, seed: int, steps: int) -> dict[str, Any]:
    """The held-out loss on the documentation in the standard library."""
    tokenizer, fill = ready_text(TEXT, lambda text: None)
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        text = open_prepared(Path(folder))
        model = equal_model(
            kind,
            LANGUAGE,
            vocab_size=tokenizer.vocab_size,
            context_length=LANGUAGE_CONTEXT,
            seed=seed,
        )
        order = next_token_batches(text.train.tokens, context_length=LANGUAGE_CONTEXT, seed=seed)
        batches = (order.batch(step * LANGUAGE_ROWS, LANGUAGE_ROWS) for step in range(steps))
        trained = train(model, batches, steps)
        held_out = text.held_out.tokens[:50_000]
        loss = evaluate_tokens(model, held_out, n_bytes=1).loss_nats
    return {"parameters": count(model), "held_out_nats": loss, "training_nats": trained}


def step(*, kind: str, length: int, tokens: int, repetitions: int) -> dict[str, Any]:
    """Tokens per second and peak memory of a training step at a length; the state of generation.

    Seconds are processor time on one thread. On a quiet machine they equal the clock; on a shared
    machine they leave out the work of others.
    """
    model = equal_model(kind, LANGUAGE, vocab_size=1024, context_length=length, seed=0)
    ids = torch.randint(1024, (tokens // length, length))
    batch = TokenBatch(ids=ids, targets=ids.roll(-1, 1), n_supervised=ids.numel())
    before, load = resident(), os.getloadavg()[0]
    seconds: list[float] = []
    clock: list[float] = []
    for _ in range(repetitions + 1):  # the first one warms up
        started, clock_started = time.process_time(), time.perf_counter()
        train(model, iter([batch]), 1)
        seconds.append(time.process_time() - started)
        clock.append(time.perf_counter() - clock_started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "tokens_per_second": tokens / median(seconds[1:]),
        "fastest": tokens / min(seconds[1:]),
        "slowest": tokens / max(seconds[1:]),
        "tokens_per_second_by_the_clock": tokens / median(clock[1:]),
        "peak_bytes_above_start": peak - before,
        "state_bytes": state_bytes(model, length),
        "load_before": load,
    }


def state_bytes(model: Transformer, length: int) -> int:
    """What one text of `length` tokens leaves in the caches of all layers."""
    caches = model.new_caches()
    with torch.no_grad():
        model.hidden_states(torch.zeros(1, length, dtype=torch.long), caches)
    states: list[Tensor] = []
    for cache in caches:
        store = cache._store
        states += [] if store is None else [part[:, :, : cache.length] for part in store]
        states += cache.state() or ()
    return sum(part.numel() * part.element_size() for part in states)


def resident() -> int:
    """Bytes of memory that this process holds now."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmRSS: memory is measured on Linux alone")


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "recall": recall,
    "language": language,
    "step": step,
}


def main() -> None:
    task = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    measure, seeds = TASKS[task.pop("task")], task.pop("seeds", None)
    if seeds is None:
        print(json.dumps(measure(**task)))
    else:
        print(json.dumps([{"seed": seed, **measure(seed=seed, **task)} for seed in seeds]))


if __name__ == "__main__":
    main()
