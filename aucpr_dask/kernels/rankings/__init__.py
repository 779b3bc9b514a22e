"""From scores to the counts of positives and negatives in a ranking."""
