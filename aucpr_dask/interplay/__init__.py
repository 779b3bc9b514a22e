"""What goes to other packages and comes from them: data frames, files, scikit-learn, MLflow and trec_eval.

Each of them is imported where it is used, and none is needed by anything else here.
"""
