"""Scores from other people's files: TREC runs, tables, arrays."""
