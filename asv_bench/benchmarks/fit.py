"""Fit time, and the score that it buys."""

from __future__ import annotations

from . import common, estimators


class XGBDepthWiseFit(estimators.XGBDepthWise, common.TimeFit):
    pass


class XGBLossGuidedFit(estimators.XGBLossGuided, common.TimeFit):
    pass


class XGBDepthWiseScore(estimators.XGBDepthWise, common.TrackScore):
    pass


class XGBLossGuidedScore(estimators.XGBLossGuided, common.TrackScore):
    pass
