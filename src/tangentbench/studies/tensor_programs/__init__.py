"""Wide networks with non-Gaussian weights: their kernels at the start, and their losses in training."""
