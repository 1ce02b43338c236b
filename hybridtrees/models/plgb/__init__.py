"""Piece-wise linear gradient boosting."""
