"""From results to statements about models: means over queries, paired comparisons, ranks."""
