"""The families of published models that are handled, in one table by their `model_type`."""

from pellucid.checkpoints.huggingface.families.bert import BERT
from pellucid.checkpoints.huggingface.families.gemma2 import GEMMA2
from pellucid.checkpoints.huggingface.families.gpt2 import GPT2
from pellucid.checkpoints.huggingface.families.gpt_neox import GPT_NEOX
from pellucid.checkpoints.huggingface.families.llama import LLAMA
from pellucid.checkpoints.huggingface.families.mistral import MISTRAL
from pellucid.checkpoints.huggingface.families.olmo2 import OLMO2
from pellucid.checkpoints.huggingface.families.qwen import QWEN2, QWEN3
from pellucid.checkpoints.huggingface.families.t5 import T5
from pellucid.checkpoints.huggingface.family import Family

#: Where several can say a model, the first is what it is written as.
FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (LLAMA, GPT2, QWEN2, QWEN3, MISTRAL, GPT_NEOX, OLMO2, GEMMA2, BERT, T5)
}

__all__ = ["FAMILIES"]
