"""Logs that people posted in public issue threads, and whether the diagnosis reads them right."""
