"""Measurements against peers, side by side in one sitting: `python -m benchmarks.NAME`."""
