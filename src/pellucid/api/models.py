"""The models that the API serves, by name; each is opened when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.api.engine import Engine
from pellucid.api.metrics import Metrics
from pellucid.api.refusals import ApiError
from pellucid.errors import RunError
from pellucid.generation import Sampling
from pellucid.inference import Chat, end_ids, has_chat_template
from pellucid.reader import short
from pellucid.saved_runs.inference_memory import check_written
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import kind_of


@dataclass(frozen=True, slots=True)
class Limits:
    """How many texts of a model are written at a time, and how many more may wait.

    Attributes:
        rows: texts that are written at a time.
        waiting: requests that may wait.
    """

    rows: int = 8
    waiting: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A model that can be opened: its name, its folder, and how.

    Attributes:
        name: what requests call it.
        folder: of the run or the published model.
        load: opens it.
    """

    name: str
    folder: Path
    load: Callable[[], Run]


class OpenModel:
    """An opened model: its run, the thread that writes, its chats."""

    def __init__(self, run: Run, engine: Engine, chat: Chat | None) -> None:
        self.run, self.engine, self.chat = run, engine, chat
        self.tokenizer = run.require_tokenizer()
        self.ends = end_ids(run)
        self.context_length = run.model.context_length
        self.has_encoder = run.model.encoder is not None

    def check_memory(self, n_texts: int, longest: int, n_tokens: int) -> None:
        """Refuse texts that need more memory than is free.

        Args:
            n_texts: how many texts.
            longest: the tokens of the longest prompt.
            n_tokens: the most tokens to write for each.

        Raises:
            ApiError: they do.
        """
        sampling = Sampling(max_new_tokens=n_tokens)
        try:
            check_written(self.run, n_texts, longest, sampling, force=False)
        except RunError as error:
            raise ApiError(str(error), status=503, code="out_of_memory") from None


class ServedModel:
    """One model of the server; several threads may use it."""

    def __init__(self, source: ModelSource, limits: Limits, metrics: Metrics) -> None:
        self.name = source.name
        self._source, self._limits, self._metrics = source, limits, metrics
        self._opened: OpenModel | None = None
        self._lock = threading.Lock()

    @property
    def can_chat(self) -> bool:
        """Whether it has a chat template; a base model has none."""
        return has_chat_template(self._source.folder)

    def card(self) -> dict[str, Any]:
        """Its entry in the list of models; no weight is read."""
        created = int(self._source.folder.stat().st_mtime) if self._source.folder.exists() else 0
        return {"id": self.name, "object": "model", "created": created, "owned_by": "pellucid"}

    def opened(self) -> OpenModel:
        """The model, opened once.

        Raises:
            PellucidError: it cannot be opened, or writes no texts.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> OpenModel:
        run = self._source.load()
        if kind_of(run.model) == "encoder":
            raise ApiError(
                f"the model {short(self.name)} is an encoder, and writes no texts: fill masked "
                "words with pellucid fill, or compare texts with pellucid embed",
                param="model",
            )
        run.model.output_head.require_token_logits()
        run.require_tokenizer()
        chat = Chat(run) if self.can_chat and kind_of(run.model) == "decoder" else None
        rows, waiting = self._limits.rows, self._limits.waiting
        engine = Engine(run, rows=rows, waiting=waiting, metrics=self._metrics.for_model(self.name))
        return OpenModel(run, engine, chat)

    def close(self) -> None:
        """End its threads and processes."""
        with self._lock:
            if self._opened is not None:
                self._opened.engine.close()
                if self._opened.chat is not None:
                    self._opened.chat.close()


class ServedModels:
    """All models of a server, by name."""

    def __init__(self, sources: Sequence[ModelSource], *, limits: Limits | None = None) -> None:
        self.metrics = Metrics()
        self._models = {
            source.name: ServedModel(source, limits or Limits(), self.metrics) for source in sources
        }

    @property
    def by_name(self) -> Mapping[str, ServedModel]:
        """The models, in order."""
        return self._models

    def get(self, name: str) -> ServedModel:
        """A model.

        Raises:
            ApiError: there is none of this name.
        """
        model = self._models.get(name)
        if model is None:
            names = ", ".join(self._models)
            raise ApiError(
                f"there is no model {short(name)} here: this server has {names}",
                status=404,
                param="model",
                code="model_not_found",
            )
        return model

    def close(self) -> None:
        """End all threads and processes."""
        for model in self._models.values():
            model.close()
