"""Explainable boosted linear regression."""
