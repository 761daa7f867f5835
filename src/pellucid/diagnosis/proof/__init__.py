"""Proof: fixes tried on forks of a run."""
