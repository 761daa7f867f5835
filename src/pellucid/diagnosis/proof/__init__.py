"""Proof: test fixes on forks of a run."""
