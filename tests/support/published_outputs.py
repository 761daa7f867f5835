"""What `transformers` computes for a random configuration of every family, as a file of numbers.

The weights are drawn by the name of each tensor, so a reader that takes one for another, or reads a
wrong attribute, gives other numbers; no test of this needs `transformers`. To write the file again:
`PYTHONPATH=tests python -m support.published_outputs`.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from pellucid.checkpoints.huggingface import FAMILIES, open_published
from pellucid.saved_runs.published import build_published
from support.conformance import Draw, draw, our_output, their_class, their_output

FILE = Path(__file__).parents[1] / "checkpoints" / "published_outputs.json"
#: Configurations that the parity tests do not have.
NUMBERS = (8, 9)
#: Two store sinusoids, and files with others are refused; of one the library reads no base alone.
LEFT_OUT = ("marian", "pegasus", "cwm")
CASES = tuple(name for name in FAMILIES if name not in LEFT_OUT)
LENGTH, SHOWN = 9, 6


def configuration(name: str, number: int) -> Draw:
    """A random configuration that says each thing once."""
    random_config = draw(name, number)
    if "rope_theta" in random_config.attributes:
        random_config.attributes.pop("rope_parameters", None)
    return random_config


def weight(name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor of a name: a gain is near 1, everything else near 0."""
    chance = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    numbers = torch.from_numpy(chance.standard_normal(shape)).float() * 0.15
    return numbers + 1 if len(shape) == 1 and name.endswith("weight") else numbers


def write_directory(
    folder: Path, name: str, drawn: Draw, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """A published directory of a configuration, with the weights of its tensors' names."""
    settings = {**drawn.attributes, "model_type": name, "architectures": [drawn.architecture]}
    (folder / "config.json").write_text(json.dumps(settings), "utf-8")
    tensors = {key: weight(key, tuple(shape)) for key, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def shown(output: Tensor) -> list[float]:
    """A few numbers of an output, spread over it."""
    flat = output.flatten()
    return flat[torch.linspace(0, len(flat) - 1, SHOWN).long()].tolist()


def ids_of(drawn: Draw) -> tuple[Tensor, Tensor]:
    """Two equal texts of a configuration, and that no token of them is padding."""
    row = torch.arange(LENGTH) * 7 % (drawn.attributes["vocab_size"] - 3) + 3
    return row.expand(2, -1), torch.ones(2, LENGTH, dtype=torch.bool)


def ours(name: str, drawn: Draw, shapes: Mapping[str, tuple[int, ...]]) -> list[float]:
    """The numbers of our model."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        write_directory(Path(folder), name, drawn, shapes)
        model = build_published(open_published(Path(folder)), torch.device("cpu"))
        return shown(our_output(model, *ids_of(drawn)))


def theirs(name: str, drawn: Draw) -> tuple[dict[str, tuple[int, ...]], list[float]]:
    """The tensors that `transformers` stores for a configuration, and the numbers of its model."""
    model_class, settings = their_class(name, drawn)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        folder = Path(temporary)
        model_class(settings).save_pretrained(folder)
        with safe_open(folder / "model.safetensors", "pt") as file:
            shapes = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
        write_directory(folder, name, drawn, shapes)
        settings.save_pretrained(folder)
        model = model_class.from_pretrained(folder, attn_implementation="eager").eval()
        return shapes, shown(their_output(model, *ids_of(drawn)))


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """A row of each family and configuration."""
    for name in CASES:
        for number in NUMBERS:
            shapes, outputs = theirs(name, configuration(name, number))
            yield f"{name} {number}", {"shapes": shapes, "outputs": outputs}


if __name__ == "__main__":
    lines = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in rows()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
