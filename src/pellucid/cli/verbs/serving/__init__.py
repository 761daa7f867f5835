"""The commands that serve runs: to people and programs, and to agents."""
