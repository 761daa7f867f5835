"""Are attribution and patching the same numbers as TransformerLens'?

    python -m venv TL && TL/bin/pip install 'transformer-lens>=3,<4'
    TL/bin/pip install -U 'pandas>=2.2' 'numpy>=2'
    python -m benchmarks.transformer_lens --python TL/bin/python

Its pins do not fit ours, so it runs in an environment of its own, on the weights that we write to a
file. Version 4 has no HookedTransformer, and the numpy that 3 pins does not fit its own pyarrow: so
the second line. It compares a model in the shape of GPT-2, one in the shape of Llama, and two
layers of attention alone, with random weights wide enough that nothing is nearly flat. For each it
compares the logit attribution of every part at the last token. It also compares the logit
difference after patching each head (at all tokens) and each feed-forward (at each token) from
another text.

Comes in: flags. Goes out: the largest differences on standard output, and a dated JSON file with
`--out`. Exit code 1 if one is above 1e-4.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pellucid
from benchmarks.machine import header, write
from benchmarks.workers import print_progress
from pellucid import config
from pellucid.explain import Attribution, Trace
from pellucid.explain.why.replace import Replacement, measure_differences, part_vectors
from pellucid.model import Transformer, assemble

WORKER = Path(__file__).with_name("transformer_lens_worker.py")
ALLOWED = 1e-4
N_HEADS, D_HEAD, D_MODEL, D_FF, VOCAB, TIME = 4, 16, 64, 96, 50, 12


def stack(**changes: Any) -> config.Transformer:
    """A small model in the shape of GPT-2."""
    attention = config.MultiHead(
        n_heads=N_HEADS,
        n_kv_heads=N_HEADS,
        d_head=D_HEAD,
        qkv_bias=True,
        out_bias=True,
        qk_norm=None,
        dropout=0.0,
    )
    base = config.Stack(
        n_layers=3,
        positions=config.Learned(),
        attention=attention,
        feed_forward=config.MLP(d_ff=D_FF, activation="gelu_tanh", bias=True),
        norm=config.LayerNorm(eps=1e-5, bias=True),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=0.0,
    )
    return config.Transformer(
        vocab_size=VOCAB,
        context_length=32,
        d_model=D_MODEL,
        embedding=config.Embedding(tied=False, scaled=False),
        decoder=replace(base, **changes),
        initialisation=config.Initialisation(
            weights=config.Normal(std=0.15), embedding_std=0.5, outputs="plain"
        ),
    )


BIASLESS = replace(
    stack().stacks[0].attention,  # type: ignore[type-var]
    qkv_bias=False,
    out_bias=False,
)
CASES: dict[str, tuple[config.Transformer, dict[str, Any]]] = {
    "GPT-2": (stack(), {"act_fn": "gelu_new", "d_mlp": D_FF, "normalization_type": "LN"}),
    "Llama": (
        stack(
            positions=config.Rotary(base=10_000.0),
            attention=BIASLESS,
            feed_forward=config.GatedMLP(d_ff=D_FF, activation="silu", bias=False),
            norm=config.RMSNorm(eps=1e-5),
        ),
        {
            "act_fn": "silu",
            "d_mlp": D_FF,
            "gated_mlp": True,
            "normalization_type": "RMS",
            "positional_embedding_type": "rotary",
            "rotary_dim": D_HEAD,
        },
    ),
    "attention alone": (stack(n_layers=2), {"attn_only": True, "normalization_type": "LN"}),
}


def built(model: config.Transformer, *, attention_alone: bool) -> Transformer:
    """The model with random gains and biases too."""
    torch.manual_seed(0)
    transformer = assemble(model, seed=0).eval().requires_grad_(False)
    for name, parameter in transformer.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
        if attention_alone and ".feed_forward." in name:
            parameter.zero_()
    return transformer


def their_weights(model: Transformer) -> dict[str, np.ndarray]:
    """Our weights by their names, and in their shapes."""
    decoder = model.decoder
    assert decoder is not None
    weights = {"embed.W_E": model.token_embedding.weight, "unembed.W_U": model.head_weight.T}
    positions: Any = decoder.positions
    if hasattr(positions, "embedding"):
        weights["pos_embed.W_pos"] = positions.embedding.weight
    weights |= norm_weights("ln_final", decoder.final_norm)
    for layer, block in enumerate(decoder.blocks):
        part: Any = block
        prefix = f"blocks.{layer}"
        for letter, name in (("Q", "query"), ("K", "key"), ("V", "value")):
            linear = getattr(part.attention, name)
            weights[f"{prefix}.attn.W_{letter}"] = linear.weight.view(N_HEADS, D_HEAD, -1).mT
            if linear.bias is not None:
                weights[f"{prefix}.attn.b_{letter}"] = linear.bias.view(N_HEADS, D_HEAD)
        weights[f"{prefix}.attn.W_O"] = part.attention.output.weight.T.reshape(N_HEADS, D_HEAD, -1)
        if part.attention.output.bias is not None:
            weights[f"{prefix}.attn.b_O"] = part.attention.output.bias
        weights |= norm_weights(f"{prefix}.ln1", part.attention_norm)
        weights |= norm_weights(f"{prefix}.ln2", part.feed_forward_norm)
        feed = part.feed_forward
        gated = hasattr(feed, "gate")
        weights[f"{prefix}.mlp.W_in"] = feed.up.weight.T
        weights[f"{prefix}.mlp.W_out"] = feed.down.weight.T
        if gated:
            weights[f"{prefix}.mlp.W_gate"] = feed.gate.weight.T
        else:
            weights[f"{prefix}.mlp.b_in"], weights[f"{prefix}.mlp.b_out"] = (
                feed.up.bias,
                feed.down.bias,
            )
    return {name: tensor.numpy() for name, tensor in weights.items()}


def norm_weights(name: str, norm: Any) -> dict[str, torch.Tensor]:
    """The gain of a norm, and its bias if it has one."""
    bias = getattr(norm, "bias", None)
    return {f"{name}.w": norm.gain} | ({} if bias is None else {f"{name}.b": bias})


@dataclass(frozen=True)
class Compared:
    """The largest differences of one model: of shares, and of patched logit differences."""

    name: str
    parts: int
    patches: int
    shares: float
    head_patches: float
    feed_forward_patches: float

    @property
    def largest(self) -> float:
        """The largest of all."""
        return max(self.shares, self.head_patches, self.feed_forward_patches)


def compare(name: str, python: str) -> tuple[Compared, dict[str, str]]:
    """One model on both sides."""
    model_config, shape = CASES[name]
    model = built(model_config, attention_alone="attn_only" in shape)
    generator = torch.Generator().manual_seed(1)
    text, contrast = (torch.randint(VOCAB, (TIME,), generator=generator).tolist() for _ in range(2))
    trace, other = (pellucid.trace(model, ids=ids) for ids in (text, contrast))
    attribution = trace.why()
    n_layers = trace.n_layers("decoder")
    answer = ask(
        python,
        their_weights(model),
        {
            "text": text,
            "contrast": contrast,
            "words": list(attribution.rivals.ids),
            "shape": shape
            | {
                "n_layers": n_layers,
                "d_model": D_MODEL,
                "n_ctx": 32,
                "d_head": D_HEAD,
                "n_heads": N_HEADS,
                "d_vocab": VOCAB,
                "eps": 1e-5,
            },
        },
    )
    is_attention_only = "attn_only" in shape
    shares = [
        abs(answer["shares"][name_of_part] - share)
        for name_of_part, share in their_names(attribution, is_attention_only).items()
    ]
    heads = patches(trace, attribution, other, "head")
    head_differences = np.abs(np.array(answer["head_patches"]).flatten() - heads)
    feeds = np.zeros(0)
    theirs_feeds = np.zeros(0)
    if not is_attention_only:
        feeds = patches(trace, attribution, other, "feed-forward", each_token=True)
        theirs_feeds = np.array(answer["feed_forward_patches"]).flatten()
    compared = Compared(
        name=name,
        parts=len(shares),
        patches=len(heads) + len(feeds),
        shares=max(shares),
        head_patches=float(head_differences.max()),
        feed_forward_patches=float(np.abs(theirs_feeds - feeds).max(initial=0.0)),
    )
    return compared, {"transformer-lens": answer["version"], "its torch": answer["torch"]}


def their_names(attribution: Attribution, is_attention_only: bool) -> dict[str, float]:
    """Our shares by their names of parts."""
    names: dict[str, float] = {}
    for part in attribution.parts:
        if part.kind == "head":
            names[f"L{part.layer}H{part.head}"] = part.share
        elif part.kind == "feed-forward" and not is_attention_only:
            names[f"{part.layer}_mlp_out"] = part.share
        elif part.kind in ("embedding", "positions"):
            names["embed" if part.kind == "embedding" else "pos_embed"] = part.share
    return names


def patches(
    trace: Trace, attribution: Attribution, other: Trace, kind: str, *, each_token: bool = False
) -> np.ndarray:
    """The difference after patching each part of a kind, in the order of the layers."""
    every = range(TIME)
    rows = [
        Replacement(part=part, vectors=part_vectors(other, part), places=places)
        for part in attribution.parts
        if part.kind == kind
        for places in ([[token] for token in every] if each_token else [every])
    ]
    return np.array(measure_differences(trace, attribution.rivals, rows))


def ask(python: str, weights: dict[str, np.ndarray], case: dict[str, Any]) -> dict[str, Any]:
    """Their numbers."""
    with tempfile.TemporaryDirectory() as folder:
        arrays, file = Path(folder) / "case.npz", Path(folder) / "case.json"
        np.savez(arrays, **weights)
        file.write_text(json.dumps(case), encoding="utf-8")
        process = subprocess.run(
            [python, "-P", str(WORKER), str(arrays), str(file)], capture_output=True, text=True
        )
    if process.returncode:
        sys.exit(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", required=True, type=Path, help="a Python that has transformer-lens"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the dated result")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    head = header("benchmarks.transformer_lens", parser, arguments)
    rows: list[Compared] = []
    versions: dict[str, str] = {}
    for name in CASES:
        compared, versions = compare(name, str(arguments.python))
        rows.append(compared)
        print_progress(
            f"{name:<16} {compared.parts:>3} shares {compared.shares:.1e}  "
            f"{compared.patches:>3} patches {compared.head_patches:.1e} "
            f"{compared.feed_forward_patches:.1e}"
        )
    if arguments.out:
        results = {"allowed": ALLOWED, "rows": [asdict(row) for row in rows]}
        write(head | versions | results, arguments.out, "transformer-lens")
    return int(max(row.largest for row in rows) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
