"""A published model as a run: a Hugging Face directory, opened in place.

`checkpoints.huggingface` knows the families of models.

The training of such a model is unknown. Its config has the recipe of the preset `nano`; any other
would do. It has no text and no plan: you can use the model, but not resume its training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import refuse_non_finite
from pellucid.checkpoints.huggingface import MULTI_LABEL, Published, open_published
from pellucid.data.chat.templates import PLAIN_ORIGIN, template_for
from pellucid.errors import TextError
from pellucid.model import Transformer, Weights, assemble
from pellucid.model.packed.packer import Packer, can_pack
from pellucid.model.quantization import PACKED
from pellucid.presets import find
from pellucid.saved_runs.calibration import Calibration, read_calibration
from pellucid.saved_runs.memory_check import check_opening
from pellucid.saved_runs.packed_folder import PackedFolder
from pellucid.tokenizers import Tokenizer, beginning_with, has_tokenizer, tokenizer_from


def load_published(
    folder: Path,
    device: torch.device,
    weights: Weights = "float32",
    *,
    packed: bool = False,
    calibrate: Iterable[str] | None = None,
) -> tuple[Transformer, Tokenizer | None, config.Run]:
    """The model in a Hugging Face directory, in evaluation mode, with tokenizer and config.

    The tokenizer is None if the directory has none.

    Args:
        folder: the directory.
        device: the device of the model.
        weights: the type of its matrices.
        packed: keep the matrices in few bits alone; see `load`.
        calibrate: if they are packed, a text to round them by.

    Raises:
        CheckpointError: something in it is not handled, missing or damaged; says what.
        TextError: its tokenizer is damaged, or has more tokens than the model; or the calibration
            text cannot be used.
    """
    packed = packed and device.type == "cpu" and weights in PACKED
    half = (packed and calibrate is None) or weights in ("stored", "bfloat16", "float16")
    fits = partial(check_opening, device=device, bytes_per_weight=2 if half else 4)
    published = open_published(folder, fits=fits)
    if half and not packed and not published.is_half(weights):
        check_opening(published.model, device=device)
    tokenizer = published_tokenizer(published, folder) if has_tokenizer(folder) else None
    return (
        _build(published, device, weights, tokenizer, calibrate, packed=packed),
        tokenizer,
        to_run_config(published, folder),
    )


def open_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in a Hugging Face directory; no weight is read.

    Raises:
        TextError: it has none, or one with more tokens than the model has.
    """
    return published_tokenizer(open_published(folder), folder)


def published_tokenizer(published: Published, path: Path) -> Tokenizer:
    """The tokenizer at `path`; the model's files name begin and end if the tokenizer's do not.

    For an encoder-decoder the model's files come first.

    Raises:
        TextError: there is none, or it has more tokens than the model.
    """
    attributes = published.attributes
    begin, end = attributes.get("decoder_start_token_id"), attributes.get("eos_token_id")
    begin = attributes.get("bos_token_id") if begin is None else begin
    tokenizer = tokenizer_from(path, begin_id=_first_id(begin), end_id=_first_id(end))
    start = _first_id(attributes.get("decoder_start_token_id"))
    if published.model.encoder is not None and published.model.decoder and start is not None:
        # its output may begin with another token than its tokenizer's texts: CodeT5 has <pad>, <s>
        tokenizer = beginning_with(tokenizer, start)
    refuse_too_many(tokenizer, published.model)
    return tokenizer


def published_template(folder: Path) -> str | None:
    """The source of the chat template in a folder; None if it has none.

    Raises:
        TextError: the folder has several, and none is called "default".
    """
    template = template_for(None, folder)
    return None if template.origin == PLAIN_ORIGIN else template.source


def refuse_too_many(tokenizer: Tokenizer, model: config.Transformer) -> None:
    """Refuse a tokenizer with ids that have no row in the embedding.

    Raises:
        TextError: it has.
    """
    if tokenizer.vocab_size > model.rows:
        raise TextError(
            f"the tokenizer has ids up to {tokenizer.vocab_size - 1:,}, but the model has rows for "
            f"{model.rows:,}: they do not belong together"
        )


def published_config(folder: Path) -> config.Run:
    """The model of a Hugging Face directory as a run's config; no weight is read.

    Raises:
        CheckpointError: something in it is not handled, missing or damaged; says what.
    """
    return to_run_config(open_published(folder), folder)


def build_published(
    published: Published, device: torch.device, weights: Weights = "float32"
) -> Transformer:
    """The model with its weights, on a device, in evaluation mode; no random weight is drawn."""
    return _build(published, device, weights, None, None, packed=False)


def _build(
    published: Published,
    device: torch.device,
    weights: Weights,
    tokenizer: Tokenizer | None,
    calibrate: Iterable[str] | None,
    *,
    packed: bool,
) -> Transformer:
    with torch.device("meta"):
        model = assemble(published.model, seed=0)
    if packed and can_pack(model, weights):
        text = read_calibration(calibrate, model, tokenizer, published.folder)
        packer = Packer(model, weights, text and text.sha256)
        folder = PackedFolder(published.folder, published.files, packer)
        folder.fill(partial(_pack, packer, model, published, text))
    else:
        published.fill(model, weights)
    return model.to(device).eval()


def _pack(
    packer: Packer, model: Transformer, published: Published, calibration: Calibration | None
) -> None:
    if calibration is None:
        published.fill(model, packer.weights, packer)
    else:
        wide = build_published(published, torch.device("cpu"))
        refuse_non_finite(wide.state_dict(), published.folder)
        packer.calibrate(wide, calibration.windows)


def to_run_config(published: Published, tokenizer: Path) -> config.Run:
    """A run's config around a published model; a classifier gets its objective."""
    run = wrap_model(published.model, tokenizer)
    if not isinstance(published.model.head, config.ClassificationHead):
        return run
    multi_label = published.attributes.get("problem_type") == MULTI_LABEL
    objective = config.Classification(label_smoothing=0.0, multi_label=multi_label)
    return replace(run, objective=objective)


def wrap_model(model: config.Transformer, tokenizer: Path) -> config.Run:
    """A run's config around a model that others trained."""
    recipe = find("nano")
    text = replace(recipe.text, tokenizer=config.FromFile(path=str(tokenizer)))
    return replace(recipe, model=model, text=text)


def _first_id(token_id: object) -> int | None:
    """An id, or the first of a list of ids."""
    if isinstance(token_id, list) and token_id:
        return _first_id(token_id[0])  # pyright: ignore[reportUnknownArgumentType]
    return token_id if isinstance(token_id, int) else None
