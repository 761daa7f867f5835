"""How good a model is on held-out data.

Must not know: training.
"""

from pellucid.evaluation.held_out_text import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
