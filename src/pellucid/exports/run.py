"""`pellucid export`: the model of a run for `transformers`, llama.cpp or an ONNX runtime.

A refusal leaves nothing behind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, assert_never, get_args

from pellucid.errors import ConfigError
from pellucid.exports.published import write_transformers
from pellucid.exports.subject import Exported, open_subject
from pellucid.saved_runs.folder import refuse_taken

#: What an export is for.
Format = Literal["transformers", "gguf", "onnx"]
#: The formats, in the order in which help lists them.
FORMATS: tuple[Format, ...] = get_args(Format)


def export_run(
    run: str | Path,
    out: str | Path,
    *,
    file_format: Format = "transformers",
    number_type: str | None = None,
) -> Exported:
    """Write the model of a run, or of one of its checkpoints, for other programs.

    Adapters are merged: the export is a plain model. It comes with a model card.

    Args:
        run: a run, or one of its checkpoints.
        out: the new folder.
        file_format: "transformers"; "gguf" for llama.cpp; "onnx".
        number_type: of GGUF files, "f32", "f16", "bf16" or "q8_0"; "f32" by default.

    Raises:
        RunError: there is no run, or `out` exists.
        CheckpointError: the format cannot hold the model; names the parts.
        ConfigError: a format or a type that does not exist, or a type with another format.
        PellucidError: a library that the format needs is missing.
    """
    out = Path(out)
    if file_format != "gguf" and number_type is not None:
        raise ConfigError(
            f"--type {number_type} is for GGUF files, and --format is {file_format}: leave --type "
            "out, or pass --format gguf"
        )
    subject = open_subject(Path(run))
    refuse_taken(out)
    match file_format:
        case "transformers":
            return write_transformers(subject, out)
        case "gguf":
            from pellucid.exports.gguf.folder import write_gguf

            return write_gguf(subject, out, number_type or "f32")
        case "onnx":
            from pellucid.exports.onnx_folder import write_onnx

            return write_onnx(subject, out)
        case _:
            assert_never(file_format)
