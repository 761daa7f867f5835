"""Experiments that train small models of pellucid on generated or bundled text."""
