"""Descents that the common training loop does not cover, and its compiled core."""
