"""Exchange with other packages: data frames, files, scikit-learn, MLflow and trec_eval.

Each is imported where it is used, and nothing else depends on it.
"""
