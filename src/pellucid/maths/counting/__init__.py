"""Counts of tokens, weights and operations."""
