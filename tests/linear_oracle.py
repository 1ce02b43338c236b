"""Slow and obvious versions of what the linear core computes."""

from __future__ import annotations

import numpy as np


def impute(X):
    """NaN replaced by the mean of the column."""
    mean = np.nanmean(X, axis=0)
    return np.where(np.isnan(X), mean, X)


def standardise(X, weight):
    """Columns less their weighted means over their weighted standard deviations."""
    mean = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    safe = np.where(scale > 0, scale, 1.0)
    return (X - mean) / safe, mean, safe


def penalty(coef, alpha, l1_ratio):
    return alpha * (l1_ratio * np.abs(coef).sum() + (1 - l1_ratio) / 2 * (coef**2).sum())


def linear_objective(Z, y, weight, coef, intercept, alpha, l1_ratio):
    residual = y - Z @ coef - intercept
    return np.average(residual**2, weights=weight) / 2 + penalty(coef, alpha, l1_ratio)


def log_losses(scores, codes):
    """Loss of each row; scores of shape (n, 1) or (n, n_classes)."""
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores])
    top = scores.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return log_sum - scores[np.arange(len(codes)), codes]


def logistic_objective(Z, codes, weight, coef, intercept, alpha, l1_ratio):
    losses = log_losses(Z @ coef.T + intercept, codes)
    return np.average(losses, weights=weight) + penalty(coef, alpha, l1_ratio)


def on_standard_scale(model, mean, scale):
    """Coefficients and intercepts of a fitted model for standardised columns."""
    coef = np.atleast_2d(model.term_coef_)
    intercept = np.ravel(model.intercept_) + coef @ mean
    return coef * scale, intercept


def subgradient_violation(grad, coef, l1):
    """Largest violation of the optimality conditions of a smooth loss plus l1 |b|."""
    away = np.where(coef != 0, np.abs(grad + l1 * np.sign(coef)), np.abs(grad) - l1)
    return max(0.0, away.max())
