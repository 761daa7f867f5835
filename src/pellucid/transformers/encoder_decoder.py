"""Our encoder-decoder as a class of `transformers`: it writes a text while it reads another."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.model import Encoded, Transformer
from pellucid.transformers.library import CACHE, PellucidCache, outputs, transformers
from pellucid.transformers.wrapper import (
    PellucidBase,
    decoder_padding,
    in_form,
    real_tokens,
    token_loss,
)

_Generates: Any = transformers.GenerationMixin


class PellucidForConditionalGeneration(PellucidBase, _Generates):
    """An encoder-decoder: it writes a text while it reads another."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        cache: PellucidCache | None = None,
        past_key_values: PellucidCache | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """`logits` (batch, time, vocab) of the written text, and `loss` if there are labels.

        Args:
            input_ids: (batch, source), the ids of the text to read.
            attention_mask: (batch, source), 1 for real tokens.
            decoder_input_ids: (batch, time), the written text; by default the labels, shifted.
            decoder_attention_mask: (batch, time), 1 for real tokens.
            encoder_outputs: what the encoder gave for `input_ids`.
            labels: (batch, time), the text to write, and -100 where no token is predicted.
            use_cache: whether to return a cache. cache: of the tokens before `decoder_input_ids`.
            past_key_values: as `cache`, its name before version 5 of transformers.
            return_dict: False for a tuple.
        """
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(input_ids, attention_mask)
        states = encoder_outputs[0]
        if decoder_input_ids is None:
            decoder_input_ids = self._shift(labels)
        past = cache if past_key_values is None else past_key_values
        if past is None and use_cache:
            past = PellucidCache(self.model.new_caches())
        logits = self.model(
            decoder_input_ids,
            None if past is None else past.layers,
            encoded=Encoded(states, real_tokens(attention_mask)),
            padding=decoder_padding(self.model, decoder_attention_mask),
        )
        output = outputs.Seq2SeqLMOutput(
            loss=token_loss(logits, labels),
            logits=logits,
            encoder_last_hidden_state=states,
            **{CACHE: past},
        )
        return in_form(output, self.config, return_dict)

    def _shift(self, labels: Tensor | None) -> Tensor:
        start = self.config.decoder_start_token_id
        if labels is None or start is None:
            raise PellucidError(
                "there is no text to write: pass decoder_input_ids, or labels to a model whose "
                "config has a decoder_start_token_id"
            )
        shifted = labels.roll(1, dims=1)
        shifted[:, 0] = start
        return shifted.masked_fill(shifted == -100, start)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The ids that the decoder reads to predict `labels`: the same, one place later."""
        return self._shift(labels)

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder, as `generate` calls it."""
        return _Encoder(self.model)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False


class _Encoder(nn.Module):
    """The encoder of a model; the model keeps the weights."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self._model = (model,)

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        if input_ids is None:
            raise PellucidError("an encoder-decoder reads a text too: pass input_ids")
        encoded = self._model[0].encode(input_ids, padding=real_tokens(attention_mask))
        return outputs.BaseModelOutput(last_hidden_state=encoded.states)
