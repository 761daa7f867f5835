"""Our own model for `transformers`: importing this registers the `Auto` classes.

    import pellucid.transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("exported")
    tokenizer = AutoTokenizer.from_pretrained("exported")

`pellucid export` writes a model in this form if no class of `transformers` can hold it. It is the
same code that trained the model, so `trust_remote_code` is not needed.

Must not know: training, runs.
"""

from pellucid.transformers.encoder_decoder import PellucidForConditionalGeneration
from pellucid.transformers.models import (
    PellucidForCausalLM,
    PellucidForMaskedLM,
    PellucidForSequenceClassification,
    PellucidModel,
)
from pellucid.transformers.settings import PellucidConfig

__all__ = [
    "PellucidConfig",
    "PellucidForCausalLM",
    "PellucidForConditionalGeneration",
    "PellucidForMaskedLM",
    "PellucidForSequenceClassification",
    "PellucidModel",
]
