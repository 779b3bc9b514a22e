"""The words: variables, estimators, intervals, options, labels and names, as frozen records."""
