"""Attention, with its gradients: one head, several heads, linear in time, and its vital signs."""
