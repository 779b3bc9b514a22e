"""Exchange with other packages: data frames, files, scikit-learn and trec_eval.

Optional packages are imported where they are used.
"""
