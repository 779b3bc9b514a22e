"""Count the instructions of small fixed workloads: a number that repeats, where seconds do not.

``python -m benchmarks.instructions --help`` tells how. The counts come from Callgrind (valgrind), which runs the
program on a processor of its own making, with vectors of 32 bytes (AVX2) at most: NumPy, and the kernels compiled for
the count, take what serves that. So counts compare workloads and commits; beside times of a machine with wider vectors
they say less.
"""
