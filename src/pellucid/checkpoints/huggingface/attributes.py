"""The meaning of each attribute of a `config.json`: read, one allowed value only, or ignored.

pellucid refuses an attribute that no table names: it could change every logit.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid import reader
from pellucid.errors import CheckpointError
from pellucid.reader import Table, short


class _Required:
    """No default: the attribute must be present."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that follows from earlier attributes; null means it too.

    `absent`: the default of a missing attribute, if only null means the formula.
    """

    formula: str
    value: Callable[[Table], Any]
    absent: Any = None


@dataclass(frozen=True, slots=True)
class Read:
    """It determines a part of the model; `default` is the default of `transformers`.

    It can be null with `or_none`, or if the default is null or derived. A `kind` of object is any
    type: the row that reads it checks it.
    """

    kind: type
    default: Any = REQUIRED
    or_none: bool = False


@dataclass(frozen=True, slots=True)
class FixedValue:
    """Only one value is supported, which is also the default."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ignored:
    """It does not change the numbers, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class OtherName:
    """Another name of the attribute `usual`. A file that has both must agree with itself."""

    usual: str


Rule = Read | FixedValue | Ignored | OtherName
Rules = Mapping[str, Rule]

_IDS = Ignored("names a token; the tokenizer's begin and end are found with it")
_WRITING = Ignored("for sampling text, not for prediction")
_OUTPUTS = Ignored("outputs of a call besides the logits")
_MEMORY = Ignored("how the model computes, not the result")
_TASK = Ignored("for heads that are not imported")
_ORIGIN = Ignored("where the file comes from, or for another program")

#: The attributes of every family.
ANYWHERE: Rules = {
    "architectures": Ignored("read before the table"),
    "model_type": Ignored("read before the table"),
    **dict.fromkeys(("torch_dtype", "dtype"), Ignored("tensors are read as float32")),
    **dict.fromkeys(
        ("transformers_version", "_name_or_path", "name_or_path", "transformers.js_config"),
        _ORIGIN,
    ),
    **dict.fromkeys(
        (
            "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id",
            "mask_token_id", "unk_token_id", "decoder_start_token_id", "tokenizer_class",
        ),
        _IDS,
    ),
    **dict.fromkeys(
        ("output_attentions", "output_hidden_states", "output_past", "output_scores",
         "return_dict", "return_dict_in_generate"),
        _OUTPUTS,
    ),
    **dict.fromkeys(
        ("use_cache", "gradient_checkpointing", "chunk_size_feed_forward", "torchscript",
         "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
         "use_bfloat16", "cache_implementation"),
        _MEMORY,
    ),
    **dict.fromkeys(
        ("id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
         "_num_labels", "task_specific_params", "tf_legacy_loss", "classifier_dropout", "prefix"),
        _TASK,
    ),
    **dict.fromkeys(
        ("max_length", "min_length", "do_sample", "early_stopping", "num_beams",
         "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
         "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
         "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
         "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
         "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"),
        _WRITING,
    ),
    "is_encoder_decoder": FixedValue(False),
    "is_decoder": FixedValue(False),
    "add_cross_attention": FixedValue(False),
    "cross_attention_hidden_size": FixedValue(None),
    "tie_encoder_decoder": FixedValue(False),
    "pruned_heads": FixedValue({}),
    "quantization_config": FixedValue(None),
    "auto_map": FixedValue(None),
}  # fmt: skip


#: Whole numbers that arrays can hold; this one is their end.
_WIDEST = 2**63


def read_attributes(table: Table, rules: Rules, *, family: str) -> Table:
    """The attributes that a family reads, with defaults.

    Args:
        table: the `config.json`.
        rules: the attributes of the family.
        family: its name, for messages.

    Raises:
        CheckpointError: an attribute is unknown, missing, of the wrong type, or has an unsupported
            value; names it and the supported values.
    """
    all_rules = {**ANYWHERE, **rules}
    table = _one_name_each(table, rules)
    for name, value in table.items():
        rule = all_rules.get(name)
        if rule is None:
            close = difflib.get_close_matches(name, rules, n=1)
            hint = f" (it looks like {close[0]!r}, which is handled)" if close else ""
            raise CheckpointError(
                f"config.json: the attribute {name!r} = {short(value)} is not one that the family "
                f"{family} is known to have{hint}: its effect on the model is unknown, so nothing "
                "is converted; remove it if it has none"
            )
        if isinstance(rule, FixedValue) and value != rule.value:
            raise CheckpointError(
                f"config.json: {name} = {short(value)} is not handled in the family {family}: the "
                f"only value is {rule.value!r}"
            )
    values: Table = {}
    for name, rule in all_rules.items():
        if isinstance(rule, Read):
            values[name] = _read(table, name, rule, family, values)
    return values


def _one_name_each(table: Table, rules: Rules) -> Table:
    """The table without other names."""
    renamed: Table = {}
    for name, value in table.items():
        rule = rules.get(name)
        usual = rule.usual if isinstance(rule, OtherName) else name
        if renamed.setdefault(usual, value) != value:
            raise CheckpointError(
                f"config.json has {usual} under two names, and one of them, {name}, is "
                f"{short(value)}: remove one"
            )
    return renamed


def _read(table: Table, name: str, rule: Read, family: str, values: Table) -> Any:
    if isinstance(rule.default, Derived) and table.get(name) is None:
        absent = None if name in table else rule.default.absent
        return rule.default.value(values) if absent is None else absent
    if name not in table:
        if rule.default is REQUIRED:
            raise CheckpointError(
                f"config.json has no {name!r}, which every model of the family {family} has"
            )
        return rule.default
    value = table[name]
    if value is None and (rule.or_none or rule.default is None):
        return None
    if type(value) is int and not -_WIDEST <= value < _WIDEST:
        raise CheckpointError(
            f"config.json: {name} must be a number of at most 64 bits, was {short(value)}"
        )
    if rule.kind is float and type(value) is int:
        return float(value)
    if type(value) is not rule.kind and rule.kind is not object:
        raise CheckpointError(
            f"config.json: {name} must be of type {rule.kind.__name__}, was {short(value)}"
        )
    return value


def as_table(value: object, name: str) -> Table:
    """A JSON object; anything else is refused."""
    return reader.as_table(value, name, CheckpointError)
