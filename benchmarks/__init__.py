"""Benchmarks: this package next to its peers, and next to the least time the work could take.

``python -m benchmarks`` times the suites and prints ratios.
"""
