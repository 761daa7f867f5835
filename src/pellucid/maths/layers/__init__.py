"""Whole layers of a model."""
