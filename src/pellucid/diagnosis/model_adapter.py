"""Any module that maps ids to logits, behind one face: pellucid's, Hugging Face's, or your own."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.model_outputs import logits_in
from pellucid.diagnosis.preserve_state import awaken, preserve_state
from pellucid.errors import PellucidError
from pellucid.model import Transformer
from pellucid.typed import named_modules
from pellucid.vitals import unwrap

Family = Literal["pellucid", "hugging face", "other"]

#: Tokens in a row that is made up; long enough for every kind of position and short enough to be
#: quick.
LENGTH = 24
#: Above this many weights nothing is copied to float64.
_WIDE_UP_TO = 500_000_000
#: Formats with few digits.
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
_BOTH_WAYS = ("maskedlm", "fillmask", "encoder", "bert")


class ModelAdapter:
    """A model under examination; nothing here changes it.

    Wrappers (`torch.compile`, data parallel) are taken off: probes look at the module inside.
    """

    def __init__(self, model: nn.Module, declared: Expectations | None = None) -> None:
        self.model = unwrap(model)
        self.declared = declared or Expectations()
        self.family: Family = _family(self.model)
        self._accepts = set(inspect.signature(self.model.forward).parameters)
        self._whole: str | None = None
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
        """The `config` that Hugging Face's modules carry; None elsewhere."""
        return getattr(self.model, "config", None) if self.family == "hugging face" else None

    @property
    def takes_padding(self) -> bool:
        """Whether it can be told which tokens are real."""
        return bool({"attention_mask", "padding"} & self._accepts) or self.family == "pellucid"

    @property
    def takes_documents(self) -> bool:
        """Whether it can be told which tokens belong together."""
        return self.family == "pellucid" and not self.has_encoder_and_decoder

    def random_ids(self, rows: int, time: int | None = None, seed: int = 1) -> Tensor:
        """Ids from a seed, on the model's device."""
        draws = torch.Generator().manual_seed(seed)
        ids = torch.randint(self.vocab, (rows, time or self.length), generator=draws)
        return ids.to(self.device)

    def changed_ids(self, ids: Tensor) -> Tensor:
        """Ids each of which differs from the one given."""
        return (ids + 1 + ids % max(1, self.vocab - 1)) % self.vocab

    @contextmanager
    def awake(self, *, wide: bool = True) -> Generator[None]:
        """For questions about the code: middling weights, float64 where it works, no gradients."""
        dtype = torch.float64 if wide and self._wide else None
        modules = named_modules(self.model).values()
        ids = {id(m.weight) for m in modules if isinstance(m, nn.Embedding)}
        with preserve_state(self.model, dtype=dtype), torch.no_grad():
            awaken(self.model, lambda weight: id(weight) in ids)
            yield

    @contextmanager
    def as_is(self, *, training: bool = False, wide: bool = False) -> Generator[None]:
        """For questions about the weights: copies of them as they are; gradients are allowed.

        `wide` copies weights of half precision to float32, where that works.
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
        """(batch, time, vocab) logits, or hidden states of a model without a head."""
        if self.has_encoder_and_decoder and source is None:
            # of another length, so that looking across is not taken for looking around
            source = self.random_ids(1, self.length - 1, seed=7).expand(ids.shape[0], -1)
        if self.family == "pellucid":
            return self._of_pellucid(ids, padding, documents, source, source_padding)
        return self._of_others(ids, padding, source, source_padding)

    def class_logits(self, ids: Tensor) -> Tensor | None:
        """The logits of a head that names classes; None where there is none."""
        if self.family != "pellucid":
            return None
        model = cast("Transformer", self.model)
        return model.class_logits(ids).float() if model.output_head.whole_texts else None

    def _of_pellucid(
        self,
        ids: Tensor,
        padding: Tensor | None,
        documents: Tensor | None,
        source: Tensor | None,
        source_padding: Tensor | None,
    ) -> Tensor:
        model = cast("Transformer", self.model)
        encoded = None
        if source is not None:
            encoded = model.encode(source, padding=source_padding)
        call = model if model.output_head.no_token_logits is None else model.states
        return call(ids, encoded=encoded, padding=padding, documents=documents)

    def _of_others(
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
        if self._whole is not None:
            inputs[self._whole] = ids
        rows, time = inputs.get("decoder_input_ids", ids).shape
        logits = logits_in(self.model(ids, **inputs), rows, time)
        if logits is None and self._whole is None:
            # some give the last position alone unless they are handed targets
            for name in ("targets", "labels"):
                if name in self._accepts:
                    self._whole = name
                    logits = logits_in(self.model(ids, **inputs, **{name: ids}), rows, time)
                    break
        if logits is None:
            raise PellucidError(
                "the model does not map (batch, time) ids to (batch, time, vocab) logits: wrap it "
                "in a module that does, or return an object with .logits"
            )
        return logits

    def _find_vocabulary(self) -> tuple[int, bool]:
        tables = [m for m in named_modules(self.model).values() if isinstance(m, nn.Embedding)]
        rows = [table.num_embeddings for table in tables]
        if self.family == "pellucid":
            model = cast("Transformer", self.model)
            has_logits = model.output_head.no_token_logits is None
            return model.token_embedding.num_embeddings, has_logits
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
        """The longest text it says it takes, and how long the made-up ones are."""
        places = (self.model, getattr(self.model, "config", None))
        candidates = [getattr(place, name, None) for place in places for name in _CONTEXTS]
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
        if self.family == "pellucid":
            return cast("Transformer", self.model).decoder is not None
        if getattr(self.settings, "is_decoder", False) or self.has_encoder_and_decoder:
            return True
        if getattr(self.settings, "causal", None) is False:
            return False
        name = type(self.model).__name__.lower()
        return not any(word in name for word in _BOTH_WAYS)


def has_encoder_and_decoder(model: nn.Module) -> bool:
    """Whether it reads one text and writes another, as far as it says so itself."""
    model = unwrap(model)
    if isinstance(model, Transformer):
        return model.encoder is not None and model.decoder is not None
    settings = getattr(model, "config", None) if _family(model) == "hugging face" else None
    return bool(getattr(settings, "is_encoder_decoder", False))


def _family(model: nn.Module) -> Family:
    if isinstance(model, Transformer):
        return "pellucid"
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    return "hugging face" if isinstance(model_type, str) else "other"
