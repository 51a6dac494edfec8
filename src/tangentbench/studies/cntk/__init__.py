"""The CNTK study: exact kernels of infinitely wide convolutional networks, and the finite ones beside them."""
