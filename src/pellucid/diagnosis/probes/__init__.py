"""Probes: experiments on a model that take seconds and report faults."""
