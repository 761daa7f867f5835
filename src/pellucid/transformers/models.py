"""Our own model as classes of `transformers`: each computes what `model.Transformer` computes."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model import Encoded, Transformer, assemble
from pellucid.model.facts import AddedPositionFacts, position_facts
from pellucid.transformers.cache import PellucidCache
from pellucid.transformers.library import CACHE, outputs, transformers
from pellucid.transformers.settings import PellucidConfig

_Base: Any = transformers.PreTrainedModel
_Generates: Any = transformers.GenerationMixin


class _Pellucid(_Base):
    """The common part: the model is built from its own config, and weights go in as usual."""

    config_class = PellucidConfig
    base_model_prefix = "model"
    _no_split_modules = ("Block", "ParallelBlock")
    # these choose between kernels; ours chooses by itself
    _supports_sdpa = True
    _supports_flash_attn = False

    def __init__(self, config: PellucidConfig) -> None:
        cast("Any", super()).__init__(config)
        seed = int(torch.randint(2**62, (), device="cpu"))
        self.model: Transformer = assemble(config.model, seed=seed)
        if self.model.device.type != "meta":
            for tensor in (*self.model.parameters(), *self.model.buffers()):
                _mark_filled(tensor)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Fill all that no file had: constants such as angles, and weights such as a new head."""
        named = (*self.model.named_parameters(), *self.model.named_buffers())
        empty = [(name, tensor) for name, tensor in named if not _is_filled(tensor)]
        if not empty:
            return
        with torch.device("cpu"):
            fresh = assemble(self.config.model, seed=0)
        tensors = {**dict(fresh.named_parameters()), **dict(fresh.named_buffers())}
        for name, tensor in empty:
            tensor.data.copy_(tensors[name])
            _mark_filled(tensor)

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of tokens."""
        return self.model.token_embedding

    def get_output_embeddings(self) -> nn.Module | None:
        """The head's matrix; None if it is the embedding."""
        return self.model.head

    def resize_token_embeddings(self, *_: Any, **__: Any) -> nn.Module:
        """Refuse: the size of the vocabulary is part of the model's own config.

        Raises:
            PellucidError: always.
        """
        raise PellucidError(
            "a model of pellucid keeps its vocabulary: train one with --set model.vocab_size=N, or "
            "with a tokenizer that has the new tokens"
        )


def _is_filled(tensor: Any) -> bool:
    return getattr(tensor, "_is_hf_initialized", False)


def _mark_filled(tensor: Any) -> None:
    """As `transformers` marks what needs no first weights any more."""
    tensor._is_hf_initialized = True


class PellucidModel(_Pellucid):
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
        padding = self_padding(self.model, attention_mask)
        segments = token_type_ids if self.model.segment_embedding is not None else None
        states = self.model.states(input_ids, padding=padding, segments=segments)
        pooler = self.model.pooler
        pooled = None if pooler is None else torch.tanh(pooler(states[:, 0]))
        made = outputs.BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)
        return _form(made, self.config, return_dict)


class PellucidForCausalLM(_Pellucid, _Generates):
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
        **more: Any,
    ) -> Any:
        """`logits` (batch, time, vocab), and `loss` if there are labels.

        Args:
            input_ids: (batch, time), token ids. attention_mask: (batch, keys), 1 for real tokens.
            labels: (batch, time), the same ids, or -100 where no token is predicted.
            use_cache: whether to return a cache. cache: of the tokens before `input_ids`.
            past_key_values: as `cache`, its name before version 5 of transformers.
            logits_to_keep: of how many last tokens logits are computed; 0 for all.
            return_dict: False for a tuple. more: of the loss.
        """
        past = cache if past_key_values is None else past_key_values
        if past is None and use_cache:
            past = PellucidCache(self.model.new_caches())
        padding = self_padding(self.model, attention_mask)
        states = self.model.states(
            input_ids, None if past is None else past.layers, padding=padding
        )
        logits = self.model.output_head(_last(states, logits_to_keep))
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **more
            )
        made = outputs.CausalLMOutputWithPast(loss=loss, logits=logits, **{CACHE: past})
        return _form(made, self.config, return_dict)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False


class PellucidForMaskedLM(_Pellucid):
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
        padding = self_padding(self.model, attention_mask)
        segments = token_type_ids if self.model.segment_embedding is not None else None
        logits = self.model(input_ids, padding=padding, segments=segments)
        made = outputs.MaskedLMOutput(loss=_token_loss(logits, labels), logits=logits)
        return _form(made, self.config, return_dict)


class PellucidForSequenceClassification(_Pellucid):
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
            input_ids, padding=_mask(attention_mask), segments=segments
        )
        loss = None if labels is None else self._loss(logits, labels)
        made = outputs.SequenceClassifierOutput(loss=loss, logits=logits)
        return _form(made, self.config, return_dict)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels.view(-1))


class PellucidForConditionalGeneration(_Pellucid, _Generates):
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
            encoded=Encoded(states, _mask(attention_mask)),
            padding=self_padding(self.model, decoder_attention_mask),
        )
        made = outputs.Seq2SeqLMOutput(
            loss=_token_loss(logits, labels),
            logits=logits,
            encoder_last_hidden_state=states,
            **{CACHE: past},
        )
        return _form(made, self.config, return_dict)

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
        encoded = self._model[0].encode(input_ids, padding=_mask(attention_mask))
        return outputs.BaseModelOutput(last_hidden_state=encoded.states)


def self_padding(model: Transformer, attention_mask: Tensor | None) -> Tensor | None:
    """The mask of real tokens; None if all are.

    Args:
        model: the model.
        attention_mask: (batch, keys), 1 for real tokens.

    Raises:
        PellucidError: padding in front of tokens, in a model that counts positions from the start.
    """
    padding = _mask(attention_mask)
    absolute = _counts_from_the_start(model)
    if padding is not None and absolute and not bool(padding[:, 0].all()):
        raise PellucidError(
            "this model counts positions from the start of a row, so padding in front of a text "
            'changes them: pad on the right (padding_side="right"), or pass one text at a time'
        )
    return padding


def _counts_from_the_start(model: Transformer) -> bool:
    return isinstance(position_facts(model.stack.positions), AddedPositionFacts)


def _mask(attention_mask: Tensor | None) -> Tensor | None:
    """(batch, keys), True where a token is real; None if all are."""
    if attention_mask is None:
        return None
    real = attention_mask.bool()
    return None if bool(real.all()) else real


def _last(states: Tensor, keep: int | Tensor) -> Tensor:
    """The states whose logits are needed."""
    if isinstance(keep, int):
        return states[:, -keep:] if keep else states
    return states[:, keep]


def _token_loss(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """The mean cross entropy over labels that are not -100."""
    if labels is None:
        return None
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def _form(made: Any, settings: Any, return_dict: bool | None) -> Any:
    wants_names = settings.return_dict if return_dict is None else return_dict
    return made if wants_names else made.to_tuple()


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
