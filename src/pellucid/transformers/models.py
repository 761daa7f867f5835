"""Our own model as classes of `transformers`: each computes what `model.Transformer` computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model import Transformer
from pellucid.transformers.encoder_decoder import PellucidForConditionalGeneration
from pellucid.transformers.library import CACHE, PellucidCache, outputs, transformers
from pellucid.transformers.settings import PellucidConfig
from pellucid.transformers.wrapper import (
    PellucidBase,
    decoder_padding,
    in_form,
    last_states,
    real_tokens,
    token_loss,
)

_Generates: Any = transformers.GenerationMixin


class PellucidModel(PellucidBase):
    """The last states, without a head: what `AutoModel` opens."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """`last_hidden_state` (batch, time, d_model), and `pooler_output` if there is a pooler.

        Args:
            input_ids: (batch, time), token ids. attention_mask: (batch, time), 1 for real tokens.
            token_type_ids: (batch, time), segments. return_dict: False for a tuple.
        """
        _refuse_encoder_decoder(self.model)
        padding = decoder_padding(self.model, attention_mask)
        segments = token_type_ids if self.model.segment_embedding is not None else None
        states = self.model.states(input_ids, padding=padding, segments=segments)
        pooler = self.model.pooler
        pooled = None if pooler is None else torch.tanh(pooler(states[:, 0]))
        output = outputs.BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)
        return in_form(output, self.config, return_dict)


class PellucidForCausalLM(PellucidBase, _Generates):
    """A decoder with a logit for each next token."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        cache: PellucidCache | None = None,
        past_key_values: PellucidCache | None = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool | None = None,
        **options: Any,
    ) -> Any:
        """`logits` (batch, time, vocab), and `loss` if there are labels.

        Args:
            input_ids: (batch, time), token ids. attention_mask: (batch, keys), 1 for real tokens.
            labels: (batch, time), the same ids, or -100 where no token is predicted.
            use_cache: whether to return a cache. cache: of the tokens before `input_ids`.
            past_key_values: as `cache`, its name before version 5 of transformers.
            logits_to_keep: of how many last tokens logits are computed; 0 for all.
            return_dict: False for a tuple. options: of the loss.
        """
        past = cache if past_key_values is None else past_key_values
        if past is None and use_cache:
            past = PellucidCache(self.model.new_caches())
        padding = decoder_padding(self.model, attention_mask)
        states = self.model.states(
            input_ids, None if past is None else past.layers, padding=padding
        )
        logits = self.model.output_head(last_states(states, logits_to_keep))
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **options
            )
        output = outputs.CausalLMOutputWithPast(loss=loss, logits=logits, **{CACHE: past})
        return in_form(output, self.config, return_dict)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False


class PellucidForMaskedLM(PellucidBase):
    """An encoder with a logit for each token."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """`logits` (batch, time, vocab), and `loss` if there are labels.

        Args:
            input_ids: (batch, time), token ids. attention_mask: (batch, time), 1 for real tokens.
            token_type_ids: (batch, time), segments.
            labels: (batch, time), the ids behind masks, and -100 elsewhere.
            return_dict: False for a tuple.
        """
        padding = decoder_padding(self.model, attention_mask)
        segments = token_type_ids if self.model.segment_embedding is not None else None
        logits = self.model(input_ids, padding=padding, segments=segments)
        output = outputs.MaskedLMOutput(loss=token_loss(logits, labels), logits=logits)
        return in_form(output, self.config, return_dict)


class PellucidForSequenceClassification(PellucidBase):
    """An encoder or a decoder with a logit for each class."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """`logits` (batch, classes), and `loss` if there are labels.

        Args:
            input_ids: (batch, time), token ids.
            attention_mask: (batch, time), 1 for real tokens; without it, all but `pad_token_id`.
            token_type_ids: (batch, time), segments.
            labels: (batch,), classes; or (batch, classes), 1 for each class of a text.
            return_dict: False for a tuple.
        """
        if attention_mask is None and self.config.pad_token_id is not None:
            attention_mask = input_ids != self.config.pad_token_id
        segments = token_type_ids if self.model.segment_embedding is not None else None
        logits = self.model.class_logits(
            input_ids, padding=real_tokens(attention_mask), segments=segments
        )
        loss = None if labels is None else self._loss(logits, labels)
        output = outputs.SequenceClassifierOutput(loss=loss, logits=logits)
        return in_form(output, self.config, return_dict)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels.view(-1))


def _refuse_encoder_decoder(model: Transformer) -> None:
    if model.encoder is not None and model.decoder is not None:
        raise PellucidError(
            "an encoder-decoder has no states of one text: open it with AutoModelForSeq2SeqLM"
        )


def _register() -> None:
    """Tell the `Auto` classes of our config, our models, and our tokenizers."""
    auto = transformers
    name = PellucidConfig.model_type
    auto.AutoConfig.register(name, PellucidConfig, exist_ok=True)
    for door, kind in (
        (auto.AutoModel, PellucidModel),
        (auto.AutoModelForCausalLM, PellucidForCausalLM),
        (auto.AutoModelForMaskedLM, PellucidForMaskedLM),
        (auto.AutoModelForSequenceClassification, PellucidForSequenceClassification),
        (auto.AutoModelForSeq2SeqLM, PellucidForConditionalGeneration),
    ):
        door.register(PellucidConfig, kind, exist_ok=True)
    auto.AutoTokenizer.register(
        PellucidConfig, fast_tokenizer_class=auto.PreTrainedTokenizerFast, exist_ok=True
    )


_register()
