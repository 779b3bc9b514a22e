"""Benchmarks: this package next to its peers, and next to the least time the work could take.

``python -m benchmarks`` times the suites and prints ratios; each suite is a class that asv runs as well.
``python -m benchmarks.regression BASE HEAD`` compares two commits by the instructions they execute.
"""
