"""Compare variants fairly: the same data and budget for each, paired seeds, honest verdicts.

Every run is an ordinary run's folder. The room reads events and configs.

Must not know: models, weights.
"""

from pellucid.lab.compare import compare
from pellucid.lab.comparison import Comparison, PairResult, VariantResult, compare_outcomes
from pellucid.lab.experiment import Choices, Experiment, Tuning, Variant, design
from pellucid.lab.outcome import Outcome, outcome_of
from pellucid.lab.scaling import Scaling, scaling
from pellucid.lab.scaling_law import Law, fit_law
from pellucid.lab.statistics import (
    Difference,
    Permutation,
    detectable_difference,
    holm,
    mean_interval,
    paired_difference,
    permute_signs,
    power,
    seeds_needed,
)
from pellucid.lab.sweep import Importance, Sweep, sweep
from pellucid.lab.verdict import verdict

__all__ = [
    "Choices",
    "Comparison",
    "Difference",
    "Experiment",
    "Importance",
    "Law",
    "Outcome",
    "PairResult",
    "Permutation",
    "Scaling",
    "Sweep",
    "Tuning",
    "Variant",
    "VariantResult",
    "compare",
    "compare_outcomes",
    "design",
    "detectable_difference",
    "fit_law",
    "holm",
    "mean_interval",
    "outcome_of",
    "paired_difference",
    "permute_signs",
    "power",
    "scaling",
    "seeds_needed",
    "sweep",
    "verdict",
]
