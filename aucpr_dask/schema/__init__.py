"""The vocabulary: terms of data sets, estimators, intervals and options as frozen records; checks of values."""
