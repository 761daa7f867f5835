"""`pellucid export`: a run becomes a folder that other programs read."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.errors import ConfigError

#: The programs that open each format.
_READERS = {
    "transformers": "transformers and for pellucid",
    "gguf": "llama.cpp and Ollama",
    "onnx": "ONNX runtimes",
}


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "export",
        help="write a run for transformers, llama.cpp or ONNX",
        description="Write a run's model, tokenizer and chat template, and a model card. By "
        "default transformers loads them with from_pretrained; a model that none of its classes "
        "holds needs `import pellucid.transformers` first. pellucid merges adapters, or writes "
        "them alone for peft with --adapter.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or one of its checkpoints")
    parser.add_argument("out", metavar="DIR", help="the new directory")
    parser.add_argument(
        "--format",
        choices=("transformers", "gguf", "onnx"),
        default="transformers",
        help="gguf is for llama.cpp and Ollama (transformers)",
    )
    parser.add_argument(
        "--type",
        choices=("f32", "f16", "bf16", "q8_0"),
        help="of the numbers in a GGUF file (f32)",
    )
    parser.add_argument(
        "--adapter", action="store_true", help="write the run's adapters (train --lora) alone"
    )
    parser.add_argument("--base", metavar="DIR", help="with --adapter: where peft finds the base")
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Export the run, and print its family."""
    from pellucid import runs

    if arguments.adapter:
        if arguments.format != "transformers" or arguments.type is not None:
            raise ConfigError(
                "--adapter writes adapters for peft: leave --format and --type out, or leave "
                "--adapter out to merge them into the model"
            )
        exported = runs.export_adapter(arguments.run, arguments.out, base=arguments.base)
    elif arguments.base is not None:
        raise ConfigError(f"--base {arguments.base} is for adapters: give --adapter too")
    else:
        options: dict[str, Any] = {}
        if arguments.format != "transformers" or arguments.type is not None:
            options = {"file_format": arguments.format, "number_type": arguments.type}
        exported = runs.export_run(arguments.run, arguments.out, **options)
    reader = "peft" if arguments.adapter else _READERS[arguments.format]
    text = f"{exported.folder}: a {exported.family}, for {reader}"
    facts = {
        "folder": str(exported.folder),
        "family": exported.family,
        "format": arguments.format,
        "notes": list(exported.notes),
    }
    print_result(arguments, facts, [text, *exported.notes])
