"""The neural-path-kernel study: gates, paths and their kernels."""
