"""A trained model leaves: for `transformers`, llama.cpp or an ONNX runtime, with a model card.

Must not know: training.
"""

from pellucid.exports.run import FORMATS, Format, export_run
from pellucid.exports.subject import Exported

__all__ = ["FORMATS", "Exported", "Format", "export_run"]
