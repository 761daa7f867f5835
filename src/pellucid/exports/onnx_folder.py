"""A folder with an ONNX file: the whole model without a cache, for any runtime of ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import jaxtyping
import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints import write_folder
from pellucid.errors import CheckpointError
from pellucid.exports.card import CARD, CardFacts, card
from pellucid.exports.subject import Exported, Subject
from pellucid.exports.tokenizer_files import TOKENIZER_FILES, write_tokenizer_files
from pellucid.extras import import_extra
from pellucid.model import Encoded, Transformer, assemble
from pellucid.model.positions import Positions
from pellucid.model.relative_positions import ShawRelative

ONNX = "model.onnx"
#: ONNX files end at two gigabytes; larger weights are in a file of their own.
_EXTERNAL = f"{ONNX}.data"
#: All files of an export.
FILES = (ONNX, _EXTERNAL, *TOKENIZER_FILES, CARD)
#: The largest distance between the file and the model, as a share of the largest number.
_CLOSE = 1e-4
#: Bytes of weights that still go into the file itself.
_LARGEST_FILE = 2**30


def write_onnx(subject: Subject, out: Path) -> Exported:
    """Write a run as an ONNX file with its tokenizer.

    Args:
        subject: the opened run.
        out: the new folder.

    Raises:
        CheckpointError: torch cannot express a part of the model in ONNX, or the file gives other
            numbers; names the part.
        LibraryError: the libraries of the extra are missing.
    """
    import_extra("onnx", "onnx", "onnxscript", "onnxruntime")
    graph = graph_of(subject.config)
    _refuse_chunks(subject.config)
    model = _merged_model(subject)
    _form_weights(model)
    program = _export(model, graph, subject.config)
    _compare(program, model, graph, subject.config)
    n_bytes = sum(4 * tensor.numel() for tensor in subject.tensors.values())

    def write(place: Path) -> None:
        program.save(place / ONNX, external_data=n_bytes > _LARGEST_FILE)
        write_tokenizer_files(place, subject.config, subject.tokenizer, subject.template)
        facts = CardFacts(
            name=out.resolve().name, format="onnx", family=type(graph).__name__, file=ONNX
        )
        text = card(facts, subject.run, subject.folder, step=subject.step)
        (place / CARD).write_text(text, encoding="utf-8")

    write_folder(out, FILES, write)
    return Exported(folder=out, family=f"graph of {', '.join(graph.inputs)} to {graph.output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The inputs and the output of an ONNX file, by name."""

    inputs: tuple[str, ...]
    output: str


def graph_of(model: config.Transformer) -> Graph:
    """Which inputs a model takes: a decoder reads ids, all others a mask of real tokens too."""
    output = {
        config.NoHead: "last_hidden_state",
        config.LanguageHead: "logits",
        config.ClassificationHead: "logits",
    }[type(model.head)]
    if model.encoder is None and isinstance(model.head, config.LanguageHead):
        return Graph(inputs=("input_ids",), output=output)
    decoder_inputs = (
        () if model.encoder is None or model.decoder is None else ("decoder_input_ids",)
    )
    return Graph(inputs=("input_ids", "attention_mask", *decoder_inputs), output=output)


def inputs_of(
    graph: Graph, batch: int, source: int, n_written: int, *, seed: int
) -> dict[str, Tensor]:
    """Random inputs of these sizes; the last row has padding at its end.

    Args:
        graph: names the inputs.
        batch: the number of rows.
        source: the tokens that are read.
        n_written: the tokens that a decoder has written, if it reads another text.
        seed: of the ids, which are 0 and 1.
    """
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(batch, source, dtype=torch.long)
    mask[-1, max(1, source - 2) :] = 0
    ids = torch.randint(0, 2, (batch, source), generator=generator)
    answer = torch.randint(0, 2, (batch, n_written), generator=generator)
    tensors = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": answer}
    return {name: tensors[name] for name in graph.inputs}


def _refuse_chunks(model: config.Transformer) -> None:
    for stack in model.stacks:
        for layer in stack.layers:
            if isinstance(layer.feed_forward, config.Experts):
                raise CheckpointError(
                    "feed_forward is Experts, whose products have sizes that depend on the text: a "
                    "graph of ONNX does not hold them; leave --format onnx out"
                )
            if isinstance(layer.attention, config.LinearAttention | config.NeuralMemory):
                kind = type(layer.attention).__name__
                raise CheckpointError(
                    f"attention is {kind}, which reads a text in chunks, one after another: a "
                    "graph of ONNX has no such loop; leave --format onnx out"
                )


def _traced_sizes(model: config.Transformer) -> tuple[int, int, int]:
    """Sizes of an example that differ from each other and go beyond every window.

    The exporter follows the code for this example, and takes equal sizes for the same one.
    """
    windows = [
        layer.attention.window or 0
        for stack in model.stacks
        for layer in stack.layers
        if isinstance(layer.attention, config.MultiHead)
    ]
    longest = model.context_length
    source = min(longest, max(5, *(window + 1 for window in windows)))
    return 2, source, min(longest, source + 1)


def _compare(
    program: Any, model: Transformer, graph: Graph, model_config: config.Transformer
) -> None:
    """Run the file and the model on other sizes.

    Raises:
        CheckpointError: their outputs differ.
    """
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    longest = model_config.context_length
    for sizes in ((1, 1, 1), (3, longest, min(longest, 3)), (1, min(longest, 4), longest)):
        inputs = inputs_of(graph, *sizes, seed=1)
        with torch.no_grad():
            expected = _Graph(model)(**inputs)
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        try:
            output = torch.tensor(session.run(None, arrays)[0])
        except Exception as error:  # the runtime raises nothing narrower
            reason = str(error).partition("\n")[0][:200]
            raise CheckpointError(
                f"onnxruntime cannot run the ONNX file of this model ({reason}): leave --format "
                "onnx out"
            ) from None
        scale = max(1.0, float(expected.abs().max()))
        distance = float((output - expected).abs().max()) / scale
        if output.shape != expected.shape or not distance < _CLOSE:
            raise CheckpointError(
                f"the ONNX file gives other numbers than the model for {sizes[0]} x {sizes[1]} "
                f"tokens (by {distance:.2g} of the largest): torch's exporter does not handle a "
                "part of it; leave --format onnx out"
            )


class _Graph(nn.Module):
    """A model as a function of tensors alone."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        padding = None if attention_mask is None else attention_mask.bool()
        if decoder_input_ids is not None:
            encoded = self.model.encode(input_ids, padding=padding)
            return self.model(decoder_input_ids, encoded=Encoded(encoded.states, padding))
        states = self.model.states(input_ids, padding=padding)
        if self.model.has_head or self.model.output_head.whole_texts:
            return self.model.output_head(states, padding)
        return states


def _form_weights(model: Transformer) -> None:
    """Let attention form its weights: the blocks of windows and fused kernels fix a length."""
    for module in model.modules():
        if isinstance(module, Positions) and not isinstance(module, ShawRelative):
            module.adds_values = True  # the base class adds nothing, but asks for the weights


def _merged_model(subject: Subject) -> Transformer:
    """The model with its adapters in its weights."""
    if subject.run.trained is None:
        return subject.model
    model = assemble(subject.config, seed=0)
    model.load_state_dict(dict(subject.tensors))
    return model.eval()


def _export(model: Transformer, graph: Graph, model_config: config.Transformer) -> Any:
    """The model as a program of ONNX, for any batch and any length up to the context."""
    arguments = tuple(inputs_of(graph, *_traced_sizes(model_config), seed=0).values())
    batch = torch.export.Dim("batch")
    longest = model_config.context_length
    length = torch.export.Dim("length", max=longest)
    n_written = torch.export.Dim("written", max=longest)
    shapes = {
        name: {0: batch, 1: n_written if name == "decoder_input_ids" else length}
        for name in graph.inputs
    }
    with _quiet():
        try:
            return cast("Any", torch.onnx).export(
                _Graph(model),
                arguments,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=list(graph.inputs),
                output_names=[graph.output],
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            raise CheckpointError(
                f"torch cannot write this model as ONNX ({reason[:300]}): leave --format onnx out"
            ) from None


@contextmanager
def _quiet() -> Generator[None]:
    """Without the exporter's notes about other libraries, and without checks of shapes.

    If somebody checks the types of our functions, a symbolic length is no whole number to them.
    """
    logger = logging.getLogger("torch.onnx")
    level, unchecked = logger.level, jaxtyping.config.jaxtyping_disable
    logger.setLevel(logging.ERROR)
    checks: Any = jaxtyping.config
    checks.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        checks.update("jaxtyping_disable", unchecked)
