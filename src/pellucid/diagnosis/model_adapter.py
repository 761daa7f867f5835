"""One interface to every module that maps ids to logits: pellucid's, Hugging Face's, or yours."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.model_outputs import logits_in
from pellucid.diagnosis.preserve_state import awaken, preserve_state
from pellucid.errors import PellucidError
from pellucid.model import Transformer
from pellucid.model.facts import TransformerFacts, UnknownFacts, model_facts
from pellucid.typed import named_modules
from pellucid.vitals import unwrap

Family = Literal["pellucid", "hugging face", "other"]

#: Tokens in a row of random ids: enough for every kind of position, and quick.
LENGTH = 24
#: A model with more weights is not copied to float64.
_WIDE_UP_TO = 500_000_000
#: The types of half precision.
HALF = (torch.float16, torch.bfloat16)
_CONTEXTS = (
    "context_length",
    "max_position_embeddings",
    "n_positions",
    "block_size",
    "max_seq_len",
    "max_length",
    "max_len",
    "n_ctx",
)
#: Words in the class names of models that see the tokens on both sides.
_BIDIRECTIONAL = ("maskedlm", "fillmask", "encoder", "bert")


class NoTokenLogits(PellucidError):  # noqa: N818  a reason for a refusal
    """The model predicts no tokens, but perhaps classes, numbers or rewards."""


class ModelAdapter:
    """A model under examination, which stays as it is.

    Probes look at the module inside wrappers such as `torch.compile` and data parallel.

    Args:
        model: a module that maps ids to logits.
        declared: what you intend, so that it is not reported.

    Raises:
        PellucidError: the model gives no (batch, time, vocab) logits.
    """

    def __init__(self, model: nn.Module, declared: Expectations | None = None) -> None:
        self.model = unwrap(model)
        self.declared = declared or Expectations()
        self.family: Family = _find_family(self.model)
        #: the model, if it is pellucid's
        self.transformer = cast("Transformer", self.model) if self.family == "pellucid" else None
        self._accepts = set(inspect.signature(self.model.forward).parameters)
        #: the argument that makes the model give the logits of all positions
        self._targets_name: str | None = None
        self.length = 2
        self.device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        self.has_encoder_and_decoder = has_encoder_and_decoder(self.model)
        self.causal = self._is_causal()
        with preserve_state(self.model), torch.no_grad():
            self.vocab, self.has_logits = self._find_vocabulary()
            self.context, self.length = self._find_lengths()
        self._wide = self._works_in_float64()

    @property
    def settings(self) -> Any:
        """The `config` of a Hugging Face module; None for others."""
        return getattr(self.model, "config", None) if self.family == "hugging face" else None

    @property
    def takes_padding(self) -> bool:
        """Whether the model accepts a padding mask."""
        return bool({"attention_mask", "padding"} & self._accepts) or self.family == "pellucid"

    @property
    def takes_documents(self) -> bool:
        """Whether the model accepts the documents of packed rows."""
        return self.family == "pellucid" and not self.has_encoder_and_decoder

    def random_ids(self, rows: int, time: int | None = None, seed: int = 1) -> Tensor:
        """Random ids on the model's device.

        Args:
            rows: the number of rows.
            time: the number of positions; by default `length`.
            seed: the seed of the draw.
        """
        draws = torch.Generator().manual_seed(seed)
        ids = torch.randint(self.vocab, (rows, time or self.length), generator=draws)
        return ids.to(self.device)

    def changed_ids(self, ids: Tensor) -> Tensor:
        """Other ids: each differs from the given one."""
        return (ids + 1 + ids % max(1, self.vocab - 1)) % self.vocab

    @contextmanager
    def awake(self, *, wide: bool = True) -> Generator[None]:
        """For probes of the code: middling weights, float64 if it works, no gradients."""
        dtype = torch.float64 if wide and self._wide else None
        modules = named_modules(self.model).values()
        ids = {id(m.weight) for m in modules if isinstance(m, nn.Embedding)}
        with preserve_state(self.model, dtype=dtype), torch.no_grad():
            awaken(self.model, lambda weight: id(weight) in ids)
            yield

    @contextmanager
    def as_is(self, *, training: bool = False, wide: bool = False) -> Generator[None]:
        """For probes of the weights: copies of the weights as they are, with gradients.

        `wide` copies weights of half precision to float32, if that works.
        """
        half = any(p.dtype in HALF for p in self.model.parameters())
        dtype = torch.float32 if wide and half and self._wide else None
        with preserve_state(self.model, training=training, dtype=dtype), torch.enable_grad():
            yield

    def outputs(
        self,
        ids: Tensor,
        *,
        padding: Tensor | None = None,
        documents: Tensor | None = None,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
    ) -> Tensor:
        """Run the model: (batch, time, vocab) logits, or the states of a model without a head.

        Args:
            ids: (batch, time).
            padding: (batch, time), True for real tokens.
            documents: (batch, time), the document of each token.
            source: (batch, source) ids of the encoder; by default random.
            source_padding: (batch, source), True for real tokens.
        """
        if self.has_encoder_and_decoder and source is None:
            # of another length, so that nothing takes the source for the target
            source = self.random_ids(1, self.length - 1, seed=7).expand(ids.shape[0], -1)
        model = self.transformer
        if model is None:
            return self._run_foreign(ids, padding, source, source_padding)
        encoded = None if source is None else model.encode(source, padding=source_padding)
        call = model if model.output_head.no_token_logits is None else model.states
        return call(ids, encoded=encoded, padding=padding, documents=documents)

    def class_logits(self, ids: Tensor) -> Tensor | None:
        """The logits of a classification head; None if there is none."""
        model = self.transformer
        if model is None or not model.output_head.whole_texts:
            return None
        return model.class_logits(ids).float()

    def _run_foreign(
        self,
        ids: Tensor,
        padding: Tensor | None,
        source: Tensor | None,
        source_padding: Tensor | None,
    ) -> Tensor:
        inputs: dict[str, Any] = {}
        if source is not None:
            inputs["decoder_input_ids"] = ids
            ids, padding = source, source_padding
        if "attention_mask" in self._accepts and self.family == "hugging face":
            mask = torch.ones_like(ids) if padding is None else padding.to(ids.dtype)
            inputs["attention_mask"] = mask
        elif padding is not None:
            name = "attention_mask" if "attention_mask" in self._accepts else "padding"
            inputs[name] = padding
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        if self._targets_name is not None:
            inputs[self._targets_name] = ids
        rows, time = inputs.get("decoder_input_ids", ids).shape
        logits = logits_in(self.model(ids, **inputs), rows, time)
        if logits is None and self._targets_name is None:
            # without targets, some models give only the logits of the last position
            for name in ("targets", "labels"):
                if name in self._accepts:
                    self._targets_name = name
                    logits = logits_in(self.model(ids, **inputs, **{name: ids}), rows, time)
                    break
        if logits is None:
            raise NoTokenLogits(
                "the model does not map (batch, time) ids to (batch, time, vocab) logits: wrap it "
                "in a module that does, return an object with .logits, or pass check() your batch: "
                "a dict of the arguments of your loop's own call"
            )
        return logits

    def _find_vocabulary(self) -> tuple[int, bool]:
        model = self.transformer
        if model is not None:
            has_logits = model.output_head.no_token_logits is None
            return model.token_embedding.num_embeddings, has_logits
        modules = named_modules(self.model).values()
        rows = [m.num_embeddings for m in modules if isinstance(m, nn.Embedding)]
        vocab_size: Any = getattr(self.settings, "vocab_size", None)
        self.vocab = vocab_size if isinstance(vocab_size, int) else 1
        width = self.outputs(
            torch.zeros(1, self.length, dtype=torch.long, device=self.device)
        ).shape[-1]
        if isinstance(vocab_size, int):
            return vocab_size, width >= vocab_size
        if width in rows or not rows:
            return width, True
        return rows[0], width >= rows[0]

    def _find_lengths(self) -> tuple[int | None, int]:
        """The model's context length if it states one, and the length of random rows."""
        holders = (self.model, getattr(self.model, "config", None))
        candidates = [getattr(holder, name, None) for holder in holders for name in _CONTEXTS]
        lengths = [n for n in candidates if isinstance(n, int) and n > 1]
        context = min(lengths) if lengths else None
        length = LENGTH if context is None else min(LENGTH, context)
        while length > 2:
            try:
                self.outputs(self.random_ids(1, length))
            except (RuntimeError, IndexError, ValueError, AssertionError):
                length //= 2
            else:
                break
        return context, length

    def _works_in_float64(self) -> bool:
        if sum(p.numel() for p in self.model.parameters()) > _WIDE_UP_TO:
            return False
        try:
            with preserve_state(self.model, dtype=torch.float64), torch.no_grad():
                return bool(self.outputs(self.random_ids(2)).dtype == torch.float64)
        except (RuntimeError, TypeError):
            return False

    def _is_causal(self) -> bool:
        if self.declared.causal is not None:
            return self.declared.causal
        if self.transformer is not None:
            return self.transformer.decoder is not None
        if getattr(self.settings, "is_decoder", False) or self.has_encoder_and_decoder:
            return True
        if getattr(self.settings, "causal", None) is False:
            return False
        name = type(self.model).__name__.lower()
        return not any(word in name for word in _BIDIRECTIONAL)


def has_encoder_and_decoder(model: nn.Module) -> bool:
    """Whether the model states that it reads one text and writes another."""
    model = unwrap(model)
    facts = model_facts(model)
    match facts:
        case TransformerFacts():
            return facts.stacks == "encoder_decoder"
        case UnknownFacts():
            settings = getattr(model, "config", None)
            is_foreign = _find_family(model) == "hugging face"
            return is_foreign and bool(getattr(settings, "is_encoder_decoder", False))
        case _:
            assert_never(facts)


def _find_family(model: nn.Module) -> Family:
    facts = model_facts(model)
    match facts:
        case TransformerFacts():
            return "pellucid"
        case UnknownFacts():
            model_type = getattr(getattr(model, "config", None), "model_type", None)
            return "hugging face" if isinstance(model_type, str) else "other"
        case _:
            assert_never(facts)
