"""Expectation and maximisation steps of a mixture of experts, row by row in plain NumPy."""

from __future__ import annotations

import numpy as np


def softmax(scores):
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def normal(y, mean, variance):
    return np.exp(-((y - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def expectation(Z, gate, densities, weight):
    """Return responsibilities (n_experts, n_rows) and the log-likelihood, a row at a time."""
    shares, total = np.empty(densities.shape), 0.0
    for i, z in enumerate(Z):
        joint = softmax(gate @ z) * densities[:, i]
        shares[:, i] = joint / joint.sum()
        total += weight[i] * np.log(joint.sum())
    return shares, total


def linear_step(Z, y, weight, strength, floor):
    """Return coefficients and variance of a weighted ridge regression, the intercept free."""
    size = Z.shape[1]
    ridge = np.diag(np.append(np.full(size - 1, strength), 0.0))
    gram, right = ridge.copy(), np.zeros(size)
    for z, target, w in zip(Z, y, weight, strict=True):
        gram += w * np.outer(z, z)
        right += w * target * z
    b = np.linalg.solve(gram, right)
    squares = sum(w * (t - z @ b) ** 2 for z, t, w in zip(Z, y, weight, strict=True))
    return b, max(floor, (squares + b @ ridge @ b) / weight.sum())


def softmax_objective(Z, coef, targets, weight, ridge):
    """Return the penalised log-likelihood of soft targets (n_outputs, n_rows)."""
    total = -0.5 * (ridge * coef**2).sum()
    for i, z in enumerate(Z):
        total += weight[i] * (targets[:, i] * np.log(softmax(coef @ z))).sum()
    return total


def newton_step(Z, coef, targets, weight, ridge):
    """Return coefficients after a full Newton step, from derivatives a row at a time."""
    k, width = coef.shape
    grad, hess = (-ridge * coef).ravel(), np.diag(np.tile(ridge, k))
    for i, z in enumerate(Z):
        p = softmax(coef @ z)
        grad = grad + weight[i] * np.outer(targets[:, i] - p, z).ravel()
        hess = hess + weight[i] * np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z))
    return coef + np.linalg.solve(hess, grad).reshape(k, width)
