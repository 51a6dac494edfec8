"""The conditioning study: normalised activations, what depth does to their kernels, and networks built of them."""
