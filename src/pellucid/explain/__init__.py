"""A run and a sentence in; what the model made of each token out. Knows no screen.

The first chapter: the prediction at every position, and what each token cost.
"""

from pellucid.explain.reading import Reading, TokenReading, read_sentence

__all__ = ["Reading", "TokenReading", "read_sentence"]
