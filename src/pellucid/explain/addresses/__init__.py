"""Addresses: how they are written, and the table of all that a trace can hold."""
