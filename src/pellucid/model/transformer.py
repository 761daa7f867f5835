"""The transformer: token ids in, hidden states and logits out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.model.attention import Encoded
from pellucid.model.blocks import Stack
from pellucid.model.cache import KeyValueCache, NoCache
from pellucid.model.facts import TransformerFacts
from pellucid.model.output_head import HeadTensors, NoHead, OutputHead, padding_behind
from pellucid.model.precision import Narrow
from pellucid.model.views import look


class BatchContext(TypedDict, total=False):
    """What there is to say of a batch of ids beyond the ids; what is left out is not so."""

    #: what the encoder made of the other text, for a decoder that looks at one
    encoded: Encoded | None
    #: True where a token is real, those in the caches included
    padding: Bool[Tensor, "batch keys"] | None
    #: the number of each token's document; none looks into another
    documents: Int[Tensor, "batch time"] | None
    #: how many tokens at the beginning of each row all others may look at
    prefix: Int[Tensor, " batch"] | None
    #: which kind of text each token belongs to; 0 where it is left out
    segments: Int[Tensor, "batch time"] | None


class Transformer(HeadTensors):
    """Token embedding, a decoder or an encoder or both, and an output head.

    `context_length` is the longest input. With `NoHead` the hidden states are all there is.
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
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.embedding_scale = embedding_scale
        self.token_embedding = token_embedding
        self.segment_embedding = segment_embedding
        self.encoder = encoder
        self.decoder = decoder
        # their order is that of the weights' draws and of the parameters: heads fill them in
        self.head_transform = nn.Identity()
        self.register_module("head", None)
        self.register_module("pooler", pooler)
        self.register_module("classifier", None)
        self.register_parameter("head_bias", None)
        #: Matrices that were rounded, by name, in their few bits as well: see `narrow`.
        self.narrow: dict[str, Narrow] = {}
        self.output_head = head or NoHead()
        self.output_head.install(self)

    def facts(self) -> TransformerFacts:
        """Which stacks it has, and how ids enter them."""
        both = self.encoder is not None and self.decoder is not None
        segments = self.segment_embedding
        return TransformerFacts(
            stacks="encoder_decoder" if both else "encoder" if self.decoder is None else "decoder",
            context_length=self.context_length,
            embedding_scale=self.embedding_scale,
            n_segments=None if segments is None else segments.num_embeddings,
        )

    @property
    def stack(self) -> Stack:
        """The stack whose states the head reads: the decoder where there is one."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None  # config refuses a model of neither
        return stack

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.token_embedding.weight.device

    @property
    def head_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that turns hidden states into logits.

        Raises:
            PellucidError: the model has no head, or one for classes.
        """
        return self.output_head.weight

    @property
    def has_head(self) -> bool:
        """Whether there is a logit for each token of the vocabulary."""
        return self.output_head.no_token_logits is None

    @property
    def head_scale(self) -> float:
        """What hidden states are multiplied by before the head reads them."""
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
            raise PellucidError("an encoder sees the whole text at once: it has nothing to cache")
        length = self.context_length
        return [KeyValueCache(context_length=length) for _ in self.decoder.blocks]

    def encode(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Encoded:
        """What the encoder makes of a text; `padding` is True where a token is real.

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
        """The last states of the stack; with caches, `ids` continue what the caches hold.

        The others are as in `BatchContext`.

        Raises:
            PellucidError: more tokens than the context holds; `encoded` is missing or not expected.
        """
        stack = self.stack
        self._check_encoded(encoded)
        caches = caches or [NoCache() for _ in stack.blocks]
        start, time = caches[0].length, ids.shape[1]
        self._check_length(start + time)
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
        **seen: Unpack[BatchContext],
    ) -> Float[Tensor, "batch time d_model"]:
        """What the head reads: `states`, transformed and scaled as the head would have them.

        Raises:
            PellucidError: as `states`.
        """
        return self.readable(self.states(ids, caches, **seen))

    def readable(self, states: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """States as the head reads them."""
        return self.output_head.readable(states)

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """A logit for each token of the vocabulary, from what the head reads.

        Raises:
            PellucidError: the head gives no token a probability.
        """
        return self.output_head.logits(hidden)

    def forward(
        self,
        ids: Int[Tensor, "batch time"],
        caches: Sequence[NoCache] | None = None,
        **seen: Unpack[BatchContext],
    ) -> Float[Tensor, "*batch outputs"]:
        """What the head makes of the last states.

        With a `LanguageHead`: (batch, time, vocab) logits, of the next token after a decoder, of
        each token itself after an encoder. With a `ClassificationHead`: those of `class_logits`.

        Args:
            ids: (batch, time) token ids, which continue what the caches hold.
            caches: one for each block of the decoder; None for a text without a past.
            seen: as in `BatchContext`.

        Raises:
            PellucidError: the model has no head, or the inputs do not fit it.
        """
        if self.output_head.whole_texts:
            return self._class_logits(ids, caches, seen)
        return self.output_head(self.states(ids, caches, **seen))

    def class_logits(
        self,
        ids: Int[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """A logit for each class of each text; `padding` is True where a token is real.

        Padding may be on either side; neither it nor other texts change a text's logits.

        Raises:
            PellucidError: the model is no classifier, or the texts are longer than its context.
        """
        if not self.output_head.whole_texts:
            raise PellucidError(
                "this model has no head for classes: take a run that was trained to classify, or "
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
        passed = {name for name, value in inputs.items() if value is not None}
        if caches is not None or not passed <= {"padding", "segments"}:
            unexpected = sorted(passed - {"padding", "segments"}) or ["caches"]
            raise PellucidError(
                f"{unexpected[0]} was given to a classifier, which reads each text as a whole, one "
                "a row: pass padding alone"
            )
        return self.class_logits(
            ids, padding=inputs.get("padding"), segments=inputs.get("segments")
        )

    def embed(
        self, ids: Int[Tensor, "batch time"], segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        """The embeddings of tokens, before they are told where they stand."""
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

    def _check_encoded(self, encoded: Encoded | None) -> None:
        needs_encoded = self.encoder is not None and self.decoder is not None
        if needs_encoded and encoded is None:
            raise PellucidError(
                "an encoder-decoder looks at another text: pass encoded=model.encode(source_ids)"
            )
        if encoded is not None and not needs_encoded:
            raise PellucidError("encoded was given, but this model has no decoder that looks at it")
