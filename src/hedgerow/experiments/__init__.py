"""Experiments on data whose labels are known: a dataset, a model, trials, a report (paper, section 3)."""
