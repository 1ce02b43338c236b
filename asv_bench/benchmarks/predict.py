"""Prediction time, for many rows and for one."""

from __future__ import annotations

from . import common, estimators


class XGBLossGuidedPredict(estimators.XGBLossGuided, common.TimePredict):
    """Trees of at most 31 leaves: bit-mask scoring."""


class XGBDepthSixPredict(estimators.XGBDepthWise, common.TimePredict):
    """Trees of up to 64 leaves: two words of masks."""


class XGBDeepPredict(estimators.XGBDepthWise, common.TimePredict):
    """Trees of up to 1024 leaves, most of them too large for bit masks: the walk."""

    parameters = {"max_depth": 10}
