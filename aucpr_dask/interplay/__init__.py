"""Exchange with other packages, which are imported where they are used: data frames, files, scikit-learn, TREC."""
