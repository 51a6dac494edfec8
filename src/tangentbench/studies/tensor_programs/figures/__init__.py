"""Pictures of wide networks with non-Gaussian weights."""
