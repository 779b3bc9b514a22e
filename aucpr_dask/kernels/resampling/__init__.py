"""Replicates: the same ranking with other multiplicities."""
