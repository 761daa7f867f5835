"""The transformer: token ids in, hidden states and logits out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.model.attention import BatchContext, Encoded
from pellucid.model.blocks import Stack
from pellucid.model.cache import KeyValueCache, NoCache
from pellucid.model.facts import TransformerFacts
from pellucid.model.output_head import HeadTensors, NoHead, OutputHead
from pellucid.model.precision import Narrow, device_of
from pellucid.model.views import look, padding_behind


class Transformer(HeadTensors):
    """Token embedding, a decoder or an encoder or both, and an output head.

    `context_length` is the longest input. With `NoHead` the model has hidden states only.
    """

    def __init__(
        self,
        *,
        token_embedding: nn.Embedding,
        context_length: int,
        encoder: Stack | None = None,
        decoder: Stack | None = None,
        head: OutputHead | None = None,
        embedding_scale: float = 1.0,
        segment_embedding: nn.Embedding | None = None,
        pooler: nn.Module | None = None,
        d_model: int | None = None,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.d_model = token_embedding.embedding_dim if d_model is None else d_model
        self.embedding_scale = embedding_scale
        self.token_embedding = token_embedding
        self.segment_embedding = segment_embedding
        self.encoder = encoder
        self.decoder = decoder
        # heads fill these in; their order sets the order of the parameters and of the initial draws
        self.head_transform = nn.Identity()
        for name in ("head", "pooler", "classifier", "classifier_transform"):
            self.register_module(name, pooler if name == "pooler" else None)
        self.register_parameter("head_bias", None)
        #: Rounded matrices by name, in few bits: see `narrow`.
        self.narrow: dict[str, Narrow] = {}
        self.output_head = head or NoHead()
        self.output_head.install(self)

    def facts(self) -> TransformerFacts:
        """Which stacks it has, and how ids enter them."""
        one_stack = "encoder" if self.decoder is None else "decoder"
        segments = self.segment_embedding
        return TransformerFacts(
            stacks="encoder_decoder" if self._reads_encoder else one_stack,
            context_length=self.context_length,
            embedding_scale=self.embedding_scale,
            n_segments=None if segments is None else segments.num_embeddings,
        )

    @property
    def stack(self) -> Stack:
        """The stack whose states the head reads: the decoder, or else the encoder."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None  # config refuses a model of neither
        return stack

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return device_of(self.token_embedding)

    @property
    def head_weight(self) -> Float[Tensor, "vocab width"]:
        """The matrix from hidden states to logits.

        Raises:
            PellucidError: the model has no head, or a head for classes.
        """
        return self.output_head.weight

    @property
    def has_head(self) -> bool:
        """Whether there is a logit for each token of the vocabulary."""
        return self.output_head.no_token_logits is None

    @property
    def head_scale(self) -> float:
        """The factor of hidden states before the head reads them."""
        return self.output_head.scale

    @property
    def soft_cap(self) -> float | None:
        """c, if logits are capped by c tanh(z / c)."""
        return self.output_head.soft_cap

    def new_caches(self) -> list[KeyValueCache]:
        """An empty cache for each block of the decoder.

        Raises:
            PellucidError: the model has no decoder.
        """
        if self.decoder is None:
            raise PellucidError("an encoder reads the whole text at once: it has nothing to cache")
        length = self.context_length
        return [KeyValueCache(context_length=length) for _ in self.decoder.blocks]

    def encode(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Encoded:
        """The encoder's states of a text.

        Args:
            ids: (batch, time), token ids. padding: (batch, time), True where a token is real.
            segments: (batch, time), the segment of each token; 0 by default.

        Raises:
            PellucidError: the model has no encoder, or more tokens than the context holds.
        """
        if self.encoder is None:
            raise PellucidError("this model has no encoder: pass the text to the model itself")
        self._check_length(ids.shape[1])
        view = look(ids.shape[1], ids.device, causal=self.encoder.causal, padding=padding)
        caches = [NoCache() for _ in self.encoder.blocks]
        return Encoded(self.encoder(self.embed(ids, segments), view, caches), padding)

    def states(
        self,
        ids: Int[Tensor, "batch time"],
        caches: Sequence[NoCache] | None = None,
        *,
        encoded: Encoded | None = None,
        padding: Bool[Tensor, "batch keys"] | None = None,
        documents: Int[Tensor, "batch time"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """The last states of the stack.

        Args:
            ids: (batch, time), token ids. caches: of the tokens before `ids`, one per block.
            encoded, padding, documents, prefix, segments: see `BatchContext`.

        Raises:
            PellucidError: more tokens than the context holds; `encoded` is missing or not expected.
        """
        stack = self.stack
        self._check_encoded(encoded)
        caches = caches or [NoCache() for _ in stack.blocks]
        start, time = caches[0].length, ids.shape[1]
        self._check_length(start + time)
        stack.positions.check_continued(start, start + time, padding)
        view = look(
            time,
            ids.device,
            causal=stack.causal,
            start=start,
            padding=padding,
            documents=documents,
            prefix=prefix,
        )
        x = stack(self.embed(ids, segments), view, caches, encoded)
        for cache in caches:
            cache.advance(time)
        return x

    def hidden_states(
        self,
        ids: Int[Tensor, "batch time"],
        caches: Sequence[NoCache] | None = None,
        **context: Unpack[BatchContext],
    ) -> Float[Tensor, "batch time width"]:
        """The `states` as the head reads them: transformed and scaled.

        Raises:
            PellucidError: as `states`.
        """
        return self.readable(self.states(ids, caches, **context))

    def readable(self, states: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch width"]:
        """States as the head reads them."""
        return self.output_head.readable(states)

    def logits(self, hidden: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """A logit for each token of the vocabulary, from what the head reads.

        Raises:
            PellucidError: the head has no token probabilities.
        """
        return self.output_head.logits(hidden)

    def forward(
        self,
        ids: Int[Tensor, "batch time"],
        caches: Sequence[NoCache] | None = None,
        **context: Unpack[BatchContext],
    ) -> Float[Tensor, "*batch outputs"]:
        """The output of the head.

        A `LanguageHead` gives (batch, time, vocab) logits: of the next token after a decoder, of
        each token itself after an encoder. A `ClassificationHead` gives `class_logits`.

        Args:
            ids: (batch, time), token ids.
            caches: of the tokens before `ids`, one for each block of the decoder.
            context: see `BatchContext`.

        Raises:
            PellucidError: the model has no head, or the inputs do not fit it.
        """
        if self.output_head.whole_texts:
            return self._class_logits(ids, caches, context)
        return self.output_head(self.states(ids, caches, **context))

    def class_logits(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """A logit for each class of each text.

        Padding can be on either side. It does not change a text's logits, and other texts neither.

        Args:
            ids: (batch, time), token ids. padding: (batch, time), True where a token is real.
            segments: (batch, time), the segment of each token; 0 by default.

        Raises:
            PellucidError: the model is not a classifier, or the texts are longer than its context.
        """
        if not self.output_head.whole_texts:
            raise PellucidError(
                "this model has no head for classes: use a run that was trained to classify, or "
                "train one with objective.kind = Classification"
            )
        if padding is not None:
            order, padding = padding_behind(ids, padding)
            ids = ids.gather(1, order)
            segments = None if segments is None else segments.gather(1, order)
        return self.output_head(self.states(ids, padding=padding, segments=segments), padding)

    def _class_logits(
        self, ids: Tensor, caches: Sequence[NoCache] | None, inputs: BatchContext
    ) -> Tensor:
        names = {name for name, value in inputs.items() if value is not None}
        unexpected = sorted(names - {"padding", "segments"}) + ["caches"] * (caches is not None)
        if unexpected:
            raise PellucidError(
                f"a classifier does not take {unexpected[0]}: it reads each text as a whole, one "
                "per row; pass padding only"
            )
        return self.class_logits(
            ids, padding=inputs.get("padding"), segments=inputs.get("segments")
        )

    def embed(
        self, ids: Int[Tensor, "batch time"], segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time d_embedding"]:
        """The embeddings of tokens, before positions act."""
        x = self.token_embedding(ids)
        if self.embedding_scale != 1.0:
            x = x * self.embedding_scale
        if self.segment_embedding is not None:
            segments = torch.zeros_like(ids) if segments is None else segments
            x = x + self.segment_embedding(segments)
        return x

    def _check_length(self, length: int) -> None:
        if length > self.context_length:
            raise PellucidError(
                f"{length} tokens were given, but the model's context holds "
                f"{self.context_length}: pass fewer, or cut the text"
            )

    @property
    def _reads_encoder(self) -> bool:
        return self.encoder is not None and self.decoder is not None

    def _check_encoded(self, encoded: Encoded | None) -> None:
        if self._reads_encoder and encoded is None:
            raise PellucidError(
                "an encoder-decoder reads another text too: pass encoded=model.encode(source_ids)"
            )
        if encoded is not None and not self._reads_encoder:
            raise PellucidError("encoded was given, but this model has no decoder that reads it")
