"""Random configurations of every family against `transformers`, and the page that lists them.

A family is drawn from its own table: sizes by the role of an attribute, every switch on or off,
every activation, and the values that `OPTIONS` gives for other attributes. A new family is drawn
without a line here, if its least configuration is in `support.published`.

To write docs/conformance.md again: `PYTHONPATH=tests python -m support.conformance`.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.checkpoints.huggingface import FAMILIES, open_published
from pellucid.checkpoints.huggingface.activations import ACTIVATIONS
from pellucid.checkpoints.huggingface.attributes import Read
from pellucid.checkpoints.huggingface.family import Family
from pellucid.model import Transformer
from pellucid.saved_runs.published import build_published
from support.published import ATTRIBUTES
from support.reference import quiet

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
START, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
#: Configurations of each family on the page, and in every run of the parity tests.
ON_PAGE, SAMPLED = 8, 2
#: The largest difference that a test accepts, relative to the largest number, or to 1.
TOLERANCE = 2e-5
LENGTH = 24

#: The sizes of a model: each name of an attribute, and its role.
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads",
          "attention_heads", "encoder_attention_heads", "decoder_attention_heads")  # fmt: skip
_DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers",
           "encoder_layers", "decoder_layers")  # fmt: skip
_FEEDS = ("intermediate_size", "n_inner", "d_ff", "dff", "ffn_dim", "hidden_dim", "encoder_ffn_dim",
          "decoder_ffn_dim")  # fmt: skip
_HEAD_WIDTHS = ("head_dim", "d_kv")

_LINEAR = {"rope_type": "linear", "factor": 2.5}
_YARN = {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 8}
_LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
           "original_max_position_embeddings": 10}  # fmt: skip
_ALPHA = {"rope_type": "dynamic", "factor": 1.0, "alpha": 5.0}
#: Values of attributes of any family that are neither sizes nor switches nor activations.
COMMON: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(
        ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"),
        (1e-6, 1e-3),
    ),
    "rope_theta": (50.0, 10_000.0),
    "rope_scaling": (None, _LINEAR, _YARN, _LLAMA3),
    "rotary_pct": (0.5, 1.0),
    "sliding_window": (3, 7),
    "attn_logit_softcapping": (None, 2.0),
    "final_logit_softcapping": (None, 3.0),
    "query_pre_attn_scalar": (5, 16),
    "type_vocab_size": (1, 3),
    "relative_attention_num_buckets": (4, 8),
    "relative_attention_max_distance": (9, 17),
    "feed_forward_proj": ("relu", "gelu_new", "silu", "gated-gelu", "gated-silu", "gated-relu"),
}
#: Values of one family, in place of those above. If a value is left out, there is a reason.
OPTIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "qwen2": {"max_window_layers": (0, 1)},
    "qwen3": {"max_window_layers": (0, 1)},
    "mistral": {"sliding_window": (3, 7, None)},
    "gemma2": {"rope_scaling": (None, _LINEAR)},
    # the newest configuration turns every scaling into longrope
    "phi3": {"rope_scaling": (None,)},
    # attention in both directions is refused
    "gemma3_text": {"use_bidirectional_attention": (False,)},
    "modernbert": {
        "local_attention": (4, 7),
        "global_attn_every_n_layers": (1, 2, 3),
        "global_rope_theta": (50.0, 10_000.0),
        "classifier_pooling": ("cls", "mean"),
    },
    # the default, the mean of all tokens' logits, is refused
    "eurobert": {"classifier_pooling": ("bos", "mean")},
    "openai-gpt": {"afn": ("relu", "gelu", "silu")},
    "granitemoeshared": {"shared_intermediate_size": (0, 7)},
    "hunyuan_v1_dense": {"rope_scaling": (None, _LINEAR, _ALPHA)},
    # its newest configuration keeps an old rope_theta next to the new one
    "gpt_neox": {"rope_theta": (10_000.0,), "rope_scaling": (None, _LINEAR)},
    # untied, its head has two biases, and files in which they differ are refused
    "bert": {"tie_word_embeddings": (True,)},
    # the newest library ties every head of these, unless a file holds two matrices
    **{name: {"tie_word_embeddings": (True,)} for name in ("t5", "mt5", "umt5")},
    # in the newest library an untied head brings three tables of tokens, which is refused
    **{
        name: {"tie_word_embeddings": (True,)}
        for name in ("bart", "mbart", "marian", "pegasus", "blenderbot", "plbart", "m2m_100")
    },
}


#: Values of one family that only fit together.
TOGETHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "gpt_neo": (
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 5},
        {
            "num_layers": 3,
            "attention_types": [[["local"], 1], [["global", "local"], 1]],
            "window_size": 3,
        },
    ),
    # the library refuses others
    "internlm3": tuple({"attention_bias": bias, "mlp_bias": bias} for bias in (False, True)),
    # not more groups than layers
    "albert": tuple(
        {"num_hidden_layers": layers, "num_hidden_groups": groups}
        for layers, groups in ((1, 1), (3, 1), (2, 2), (3, 2))
    ),
    "falcon": (
        {"new_decoder_architecture": True, "parallel_attn": True, "num_ln_in_parallel_attn": 1},
        {"new_decoder_architecture": True, "parallel_attn": True, "num_ln_in_parallel_attn": 2},
        {"new_decoder_architecture": False, "parallel_attn": True},
        {"new_decoder_architecture": False, "parallel_attn": False},
    ),
}
#: Families that the newest library computes wrongly without its fused attention: it adds ALiBi's
#: penalty twice.
FUSED = ("falcon",)


#: The heads of these are as wide as the model together: the library has no other output matrix.
FULL_WIDTH = ("helium",)
#: Old names of other classes; and one whose head, for replaced tokens, is not read.
LEFT_OUT = (
    "T5WithLMHeadModel",
    "ElectraForPreTraining",
    "InternLM3ForCausalLM",
    "ExaoneForCausalLM",
)


@dataclass(frozen=True)
class Draw:
    """One random configuration: its class, its attributes, and which attributes are options."""

    architecture: str
    attributes: dict[str, Any]
    options: frozenset[str]
    seed: int


def draw(name: str, number: int) -> Draw:
    """The configuration of this number: the same each time."""
    chance, family = random.Random(f"{name} {number}"), FAMILIES[name]
    reads = {key: rule for key, rule in family.rules.items() if isinstance(rule, Read)}
    architectures = [
        architecture for architecture in family.architectures if architecture not in LEFT_OUT
    ]
    sizes = dict(_sizes(reads, chance))
    if name in FULL_WIDTH:
        sizes["head_dim"] = sizes["hidden_size"] // sizes["num_attention_heads"]
    if "kv_lora_rank" in reads:  # latent keys and values belong to every head
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    options = {
        # a copy: the library writes into the tables that it is given
        key: copy.deepcopy(chance.choice(values))
        for key, values in _options(name, reads)
        if key not in sizes
    }
    options |= copy.deepcopy(dict(chance.choice(TOGETHER.get(name, ({},)))))
    # the kinds of layers follow from the depth
    least = {key: value for key, value in ATTRIBUTES[name].items() if key != "layer_types"}
    attributes = {**least, **sizes, **options}
    if attributes.get("rope_scaling") is None:
        attributes.pop("rope_scaling", None)
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return Draw(
        architecture=architectures[number % len(architectures)],
        attributes={**attributes, **ends},
        options=frozenset(options),
        seed=number,
    )


def _sizes(reads: Mapping[str, Read], chance: random.Random) -> Iterator[tuple[str, Any]]:
    """Odd sizes that fit each other: the width is a multiple of every number of heads."""
    n_heads = chance.choice((2, 3, 4, 6))
    d_head = 2 * chance.randint(1, 5)
    n_times = chance.choice((1, 2))  # an encoder and a decoder may differ
    has_experts = any("experts" in name for name in reads)
    # half of a head may be rotated, and the newest library multiplies experts in fours
    head_step = 4 if "partial_rotary_factor" in reads else 2
    for name in reads:
        if name == "vocab_size":
            yield name, chance.randrange(29, 60)
        elif name in _WIDTHS:
            yield name, n_heads * d_head * 2
        elif name in _HEADS:
            yield name, n_heads * (n_times if name.startswith("decoder") else 1)
        elif name == "num_key_value_heads":
            yield name, chance.choice([n for n in range(1, n_heads + 1) if n_heads % n == 0])
        elif name in _DEPTHS:
            yield name, chance.choice((1, 2, 3))
        elif name in _FEEDS:
            yield name, 4 * chance.randint(1, 9) if has_experts else chance.randrange(5, 40)
        elif name in _HEAD_WIDTHS:
            yield name, head_step * chance.randint(1, 4)
        elif name in ("max_position_embeddings", "n_positions"):
            yield name, LENGTH + 4 + chance.randrange(9)  # the first rows may be for padding


def _options(name: str, reads: Mapping[str, Read]) -> Iterator[tuple[str, Sequence[Any]]]:
    known_options = OPTIONS.get(name, {})
    for key, rule in reads.items():
        if key in known_options:
            yield key, known_options[key]
        elif key in COMMON:
            yield key, COMMON[key]
        elif rule.kind is bool and rule.default is not None:
            yield key, (False, True)
        elif rule.kind is str and rule.default in ACTIVATIONS:
            yield key, tuple(ACTIVATIONS)


def difference(name: str, drawn: Draw, folder: Path) -> float:
    """The largest difference of the two libraries, relative to the largest number or to 1.

    Both read two texts, the second shorter and padded, with every weight perturbed.
    """
    reference_model = _reference(name, drawn)
    reference_model.save_pretrained(folder)
    model = build_published(open_published(folder), torch.device("cpu"))
    generator = torch.Generator().manual_seed(drawn.seed)
    ids = torch.randint(3, drawn.attributes["vocab_size"], (2, LENGTH), generator=generator)
    padding = torch.ones(2, LENGTH, dtype=torch.bool)
    padding[1, 15:] = False
    ids = ids.masked_fill(~padding, 0)
    with torch.no_grad():
        expected, result = (
            their_output(reference_model, ids, padding),
            our_output(model, ids, padding),
        )
    if expected.ndim == 3 and expected.shape[1] == LENGTH:
        expected, result = expected[padding], result[padding]
    assert result.shape == expected.shape
    return float((result - expected).abs().max()) / max(1.0, float(expected.abs().max()))


def their_class(name: str, drawn: Draw) -> tuple[Any, Any]:
    """The class of a configuration in `transformers`, and its settings."""
    import transformers

    library: Any = transformers
    quiet(library)
    config_class = library.models.auto.configuration_auto.CONFIG_MAPPING[name]
    settings = config_class(**drawn.attributes)
    settings._attn_implementation = "sdpa" if name in FUSED else "eager"
    return getattr(library, drawn.architecture), settings


def _reference(name: str, drawn: Draw) -> Any:
    model_class, settings = their_class(name, drawn)
    torch.manual_seed(drawn.seed)
    model = model_class(settings).eval()
    with torch.no_grad():
        for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
            parameter.add_(0.15 * torch.randn_like(parameter))
        for buffer_name, buffer in model.named_buffers():
            if buffer_name == "final_logits_bias":
                buffer.add_(torch.randn_like(buffer))
    return model


def their_output(model: Any, ids: Tensor, padding: Tensor) -> Tensor:
    """What a model of `transformers` gives for two texts."""
    inputs: dict[str, Tensor] = {"input_ids": ids, "attention_mask": padding.long()}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = _written(ids)
    outputs = model(**inputs)
    for key in ("prediction_logits", "logits", "last_hidden_state"):
        if hasattr(outputs, key):
            return getattr(outputs, key)
    raise AssertionError(f"{type(model).__name__} gives none of the outputs that are compared")


def our_output(model: Transformer, ids: Tensor, padding: Tensor) -> Tensor:
    """The same of ours."""
    states = model.output_head.no_token_logits is not None and not model.output_head.whole_texts
    ask = model.states if states else model
    if model.encoder is not None and model.decoder is not None:
        return ask(_written(ids), encoded=model.encode(ids, padding=padding))
    return ask(ids, padding=padding)


def _written(ids: Tensor) -> Tensor:
    """The input of a decoder besides the source: other ids, without padding."""
    return ids[:1].flip(1).expand(2, -1)[:, : LENGTH - 1]


def worst(name: str, numbers: range) -> tuple[float, frozenset[str]]:
    """The worst difference of some configurations of a family, and all options that varied."""
    largest, options = 0.0, frozenset[str]()
    for number in numbers:
        random_config = draw(name, number)
        with tempfile.TemporaryDirectory() as folder:
            largest = max(largest, difference(name, random_config, Path(folder)))
        options |= random_config.options
    return largest, options


def options_of(family: Family) -> tuple[str, ...]:
    """The attributes of a family that are drawn, but for sizes; those with one value are not."""
    reads = {key: rule for key, rule in family.rules.items() if isinstance(rule, Read)}
    options = {key for key, values in _options(family.model_type, reads) if len(values) > 1}
    option_groups = TOGETHER.get(family.model_type, ())
    return tuple(sorted(options.union(*option_groups)))


def rows() -> Iterator[str]:
    """The rows of the table, one for each family."""
    for name, family in FAMILIES.items():
        largest, _ = worst(name, range(ON_PAGE))
        options = ", ".join(f"`{option}`" for option in options_of(family))
        architectures = (draw(name, number).architecture for number in range(ON_PAGE))
        classes = ", ".join(dict.fromkeys(architectures))
        yield f"| `{name}` | {classes} | {options} | {largest:.1e} |"


def parts() -> tuple[str, str, str]:
    """The page before its table, the table, and the page after it."""
    head, remainder = PAGE.read_text("utf-8").split(START)
    table, foot = remainder.split(END)
    return head, table, foot


def table() -> str:
    """The table, with the versions that it holds for."""
    import transformers

    lines = [
        f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}.",
        "",
        "| family | classes | options | worst difference |",
        "|---|---|---|---|",
        *rows(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, after = parts()
    PAGE.write_text(before + START + table() + END + after, encoding="utf-8")
