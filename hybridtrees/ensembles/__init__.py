"""Ensembles of models: each is made of other estimators, its members."""
