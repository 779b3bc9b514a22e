"""Count the instructions of small fixed workloads: unlike seconds, the counts are reproducible.

Callgrind (valgrind) simulates a processor with vectors of at most 32 bytes (AVX2), and NumPy and the kernels use code
for that. Counts compare workloads and commits; they predict times on processors with wider vectors less well.
"""
