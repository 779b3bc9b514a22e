"""Interval bounds from formulas and from replicates."""
