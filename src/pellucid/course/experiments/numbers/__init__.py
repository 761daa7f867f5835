"""Experiments that are computed with `pellucid.maths` in milliseconds."""
