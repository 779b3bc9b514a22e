"""Exchange with other packages: data frames, files, scikit-learn, MLflow and trec_eval.

Optional packages are imported where they are used.
"""
