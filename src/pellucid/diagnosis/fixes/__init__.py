"""Fixes: what to change in a config for a finding."""
