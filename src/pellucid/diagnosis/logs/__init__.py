"""Logs of any tool: read, named and diagnosed."""
