"""Features of networks with an L2 penalty."""
