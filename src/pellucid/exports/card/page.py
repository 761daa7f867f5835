"""The whole card, from the facts of a run.

It names data by file name and checksum, and no folder of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid import config
from pellucid.counting import parameter_count
from pellucid.display.numbers import short
from pellucid.errors import PellucidError
from pellucid.exports.card.data_section import data_section
from pellucid.exports.card.recipe import recipe_section
from pellucid.exports.card.results import results_section, time_section, vitals_section
from pellucid.exports.card.usage import usage_section
from pellucid.printable import join_counts
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.records import read_events
from pellucid.training import Event
from pellucid.version import __version__

CARD = "README.md"

#: The task of a model in the front matter, by its kind.
_PIPELINES = {
    "decoder": "text-generation",
    "encoder": "fill-mask",
    "encoder-decoder": "text2text-generation",
    "classifier": "text-classification",
    "states": "feature-extraction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What a card is about.

    Attributes:
        name: of the model.
        format: "transformers", "own" (with `import pellucid.transformers`), "gguf" or "onnx".
        family: the architecture that the files name.
        notes: sentences about parts that were added, and the like.
        file: the file of the weights, if you load it by name.
    """

    name: str
    format: str
    family: str
    notes: Sequence[str] = ()
    file: str = ""


def card(facts: CardFacts, run: config.Run, folder: RunFolder, *, step: int | None) -> str:
    """The text of `README.md`.

    Args:
        facts: of the export.
        run: the config of the run.
        folder: the run's folder, for its data and its record.
        step: the update after which the weights were saved; None if they were imported.
    """
    events = _events(folder)
    kind = kind_of_card(run.model)
    sections = [
        _front_matter(kind, facts),
        f"# {facts.name}",
        _summary(facts, run.model, step),
        usage_section(facts.format, kind, file=facts.file, answers=folder.template.is_file()),
    ]
    if step is None:
        sections.append(
            "## Training\n\nThe weights were imported. How they were trained is not known here: "
            "see where they come from."
        )
    else:
        sections += [
            data_section(run, folder),
            recipe_section(run, step),
            results_section(events, step),
            vitals_section(events, step),
            time_section(events, folder),
        ]
    sections.append(
        "## Licence\n\nTo fill in: the licence of these weights, and what the licence of the data "
        "allows. Until then they have none."
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def kind_of_card(model: config.Transformer) -> str:
    """The kind of model, as the card's parts distinguish them."""
    match model.head:
        case config.ClassificationHead():
            return "classifier"
        case config.NoHead():
            return "states"
        case config.LanguageHead():
            pass
    if model.decoder is None:
        return "encoder"
    return "decoder" if model.encoder is None else "encoder-decoder"


def _front_matter(kind: str, facts: CardFacts) -> str:
    libraries = {"transformers": "transformers", "own": "transformers", "onnx": "onnx"}
    library = libraries.get(facts.format, "gguf")
    lines = [
        "---",
        "license: other  # to fill in",
        f"library_name: {library}",
        f"pipeline_tag: {_PIPELINES[kind]}",
        "tags:",
        "- pellucid",
        "---",
    ]
    return "\n".join(lines)


def _summary(facts: CardFacts, model: config.Transformer, step: int | None) -> str:
    layers = join_counts((stack.n_layers for stack in model.stacks), "layer")
    kind = {"classifier": "classifier", "states": "sentence encoder"}.get(
        kind_of_card(model), kind_of_card(model)
    )
    article = "an" if kind[0] in "aeiou" else "a"
    after = "" if step is None else f", saved after {step:,} updates"
    text = (
        f"This is {article} {kind} of {short(parameter_count(model))} parameters: {layers} "
        f"of {model.d_model} features, a context of {model.context_length:,} tokens{after}. "
        f"pellucid {__version__} wrote it as `{facts.family}`."
    )
    return " ".join([text, *filter(None, facts.notes)])


def _events(folder: RunFolder) -> list[Event]:
    """The record of the run; empty if there is none that can be read."""
    try:
        return read_events(folder.metrics)
    except PellucidError:
        return []
