"""Four ways to the same numbers, behind one contract: native, torch, triton, and neural-tangents as the oracle.

A backend is a module with

    refusal(trunk, gather, size)     why it cannot serve these layers on maps of this size, or None
    sums(x1, x2, trunk, gather, taps, *, threads, doubtful_sine)    what it is for, as contract.Values

x1 and x2 (None is x1 itself) are (n, channels, height, width), contiguous, both float32 or both float64. The trunk is
every layer before the one that ends the positions, `gather`; taps are lengths of beginnings of the trunk, and a Values
holds one rectangle for each. The layers behind `gather` are numbers without positions, and exact.py's.
"""
