"""Logs of any tool: read them, find their columns, and diagnose the curves."""
