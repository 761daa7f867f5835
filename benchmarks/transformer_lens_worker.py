"""TransformerLens' side of `benchmarks.transformer_lens`: its numbers for weights that it is given.

    python -P benchmarks/transformer_lens_worker.py CASE.npz CASE.json

It runs in an environment of its own, with transformer-lens and without pellucid. Comes in: weights
by TransformerLens' names, the shape, two texts of token ids, two words. Goes out: JSON.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig, patching


def main() -> None:
    torch.set_grad_enabled(False)
    weights = {name: torch.tensor(array) for name, array in np.load(sys.argv[1]).items()}
    with open(sys.argv[2], encoding="utf-8") as file:
        case = json.load(file)
    model = HookedTransformer(HookedTransformerConfig(**case["shape"], device="cpu"))
    state = model.state_dict() | weights
    # the gain of a norm is only then part of an attribution
    model.load_and_process_state_dict(
        state,
        fold_ln=True,
        center_writing_weights=False,
        center_unembed=False,
        fold_value_biases=False,
    )
    text, contrast = (torch.tensor([case[name]]) for name in ("text", "contrast"))
    word, other = case["words"]

    def difference(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, word] - logits[0, -1, other]

    logits, cache = model.run_with_cache(text)
    _, contrast_cache = model.run_with_cache(contrast)
    cache.compute_head_results()
    parts, names = cache.get_full_resid_decomposition(
        expand_neurons=False, pos_slice=-1, return_labels=True
    )
    shares = cache.logit_attrs(
        parts, pos_slice=-1, tokens=torch.tensor([word]), incorrect_tokens=torch.tensor([other])
    )
    heads = patching.get_act_patch_attn_head_out_all_pos(model, text, contrast_cache, difference)
    layers = torch.zeros(0)
    if not model.cfg.attn_only:
        layers = patching.get_act_patch_mlp_out(model, text, contrast_cache, difference)
    print(
        json.dumps(
            {
                "version": version("transformer-lens"),
                "torch": torch.__version__,
                "difference": float(difference(logits)),
                "shares": dict(zip(names, shares[:, 0].tolist(), strict=True)),
                "head_patches": heads.tolist(),
                "feed_forward_patches": layers.tolist(),
            }
        )
    )


main()
