"""Time this package beside its peers, on the same inputs, in the same process.

``python -m benchmarks --help`` shows the suites. Every suite is an ordinary asv class, so ``asv run``
finds the same ``time_...`` methods.
"""
