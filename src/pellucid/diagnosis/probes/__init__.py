"""Probes: experiments on a model that take seconds, each a few findings."""
