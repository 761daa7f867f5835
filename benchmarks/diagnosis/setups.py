"""The trainings that faults are put into: four architectures, each a whole config.

Comes in: a name. Goes out: a `config.Run`. It does not know any fault.

`gpt` and `llama` are what thresholds may be tuned on; `encoder` and `pair` are held out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from benchmarks.diagnosis.rows import MASKED, REPLACED, TARGET_SHARE
from pellucid import config
from pellucid.presets import find

Arch = Literal["gpt", "llama", "encoder", "pair"]
TUNED: tuple[Arch, ...] = ("gpt", "llama")
HELD_OUT: tuple[Arch, ...] = ("encoder", "pair")

VOCAB, TIME, ROWS, UPDATES = 96, 48, 16, 140
_WIDTH, _HEADS = 64, 4

_HEADED = config.MultiHead(
    n_heads=_HEADS,
    n_kv_heads=_HEADS,
    d_head=_WIDTH // _HEADS,
    qkv_bias=True,
    out_bias=True,
    qk_norm=None,
    dropout=0.0,
)
_GPT = config.Stack(
    n_layers=3,
    positions=config.Learned(),
    attention=_HEADED,
    feed_forward=config.MLP(d_ff=4 * _WIDTH, activation="gelu", bias=True),
    norm=config.LayerNorm(eps=1e-5, bias=True),
    residual=config.PreNorm(),
    final_norm=True,
    dropout=0.0,
)
_LLAMA = replace(
    _GPT,
    positions=config.Rotary(base=10_000.0),
    attention=replace(_HEADED, n_kv_heads=2, qkv_bias=False, out_bias=False),
    feed_forward=config.GatedMLP(d_ff=2 * _WIDTH, activation="silu", bias=False),
    norm=config.RMSNorm(eps=1e-5),
)
_ENCODER = replace(_GPT, n_layers=2, residual=config.PostNorm(), final_norm=False)
_PAIR = replace(_LLAMA, n_layers=2, attention=replace(_LLAMA.attention, n_kv_heads=_HEADS))
_SMALL = config.Initialisation(
    weights=config.Normal(std=0.06), embedding_std=0.06, outputs="depth_scaled"
)


def setup(arch: Arch, seed: int, **training: Any) -> config.Run:
    """The healthy training of an architecture."""
    base = find("nano")
    stacks: dict[str, Any] = {"decoder": _GPT, "encoder": None}
    tied, objective = arch != "llama", base.objective
    match arch:
        case "llama":
            stacks = {"decoder": _LLAMA, "encoder": None}
        case "encoder":
            stacks = {"decoder": None, "encoder": _ENCODER}
            objective = config.MLM(chosen=TARGET_SHARE, masked=MASKED, replaced=REPLACED)
        case "pair":
            crossed = replace(_PAIR, cross_attention=_PAIR.attention)
            stacks = {"decoder": crossed, "encoder": _PAIR}
            objective = config.Seq2Seq(label_smoothing=0.0)
        case "gpt":
            pass
    model = config.Transformer(
        vocab_size=VOCAB,
        context_length=2 * TIME,
        d_model=_WIDTH,
        embedding=config.Embedding(tied=tied, scaled=False),
        initialisation=_SMALL,
        **stacks,
    )
    loop = replace(
        base.training,
        budget=config.Steps(count=UPDATES),
        batch_size=ROWS,
        clip_norm=1.0,
        device="cpu",
        precision="float32",
        compile="off",
    )
    return replace(
        base,
        seed=seed,
        text=replace(base.text, tokenizer=config.Characters()),
        model=model,
        objective=objective,
        optimiser=config.AdamW(learning_rate=4e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        schedule=config.Cosine(warm_up=0.1, final=0.1),
        training=replace(loop, **training),
    )


def stack(run: config.Run, **changes: Any) -> config.Run:
    """The run with the same changes in all its stacks."""
    stacks = {
        name: replace(stack_config, **changes)
        for name in ("encoder", "decoder")
        if (stack_config := getattr(run.model, name)) is not None
    }
    return replace(run, model=replace(run.model, **stacks))


def attention(run: config.Run, **changes: Any) -> config.Run:
    """The run with other attention."""
    first = run.model.stacks[-1].attention
    assert isinstance(first, config.MultiHead)
    return stack(run, attention=replace(first, **changes))


def optimiser(run: config.Run, **changes: Any) -> config.Run:
    """The run with other numbers for its optimiser."""
    return replace(run, optimiser=replace(run.optimiser, **changes))


def rate(run: config.Run, times: float) -> config.Run:
    """The run with its learning rate times a number."""
    return optimiser(run, learning_rate=run.optimiser.learning_rate * times)


def loop(run: config.Run, **changes: Any) -> config.Run:
    """The run with another loop."""
    return replace(run, training=replace(run.training, **changes))


def starts(run: config.Run, **changes: Any) -> config.Run:
    """The run with other first weights."""
    init = replace(run.model.initialisation, **changes)
    return replace(run, model=replace(run.model, initialisation=init))
