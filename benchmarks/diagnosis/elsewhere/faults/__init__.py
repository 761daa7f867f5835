"""Mistakes, each written as people make it in the code of their loop."""
