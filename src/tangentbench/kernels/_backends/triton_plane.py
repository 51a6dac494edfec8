"""The Triton kernel behind triton.py. Importing this file imports Triton."""

from __future__ import annotations

import triton
import triton.language as tl

INVERSE_PI = tl.constexpr(0.31830988618379067154)


@triton.jit
def box_sum(values, row, col, low_rows, high_rows, low_cols, high_cols, REACH: tl.constexpr):
    """Sum over (2 REACH + 1)^2 neighbours; low and high say how far a position may move up or left, down or right."""
    total = values
    for step in tl.static_range(1, REACH + 1):
        total += tl.where(step <= high_rows, tl.gather(values, tl.where(step <= high_rows, row + step, row), 0), 0.0)
        total += tl.where(step <= low_rows, tl.gather(values, tl.where(step <= low_rows, row - step, row), 0), 0.0)
    values = total
    for step in tl.static_range(1, REACH + 1):
        total += tl.where(step <= high_cols, tl.gather(values, tl.where(step <= high_cols, col + step, col), 1), 0.0)
        total += tl.where(step <= low_cols, tl.gather(values, tl.where(step <= low_cols, col - step, col), 1), 0.0)
    return total


@triton.jit
def relu_dual(sigma, inverse, roots, coefficients, DEGREE: tl.constexpr, SNAP: tl.constexpr):
    """Equations (19) and (20) times c_sigma = 2, from u = 1 - |cosine|: k0 = 1 - s F(u) / pi, see relu_dual.hpp.

    Third, the sine over pi.
    """
    size = tl.abs(sigma)
    u = 1.0 - size * inverse
    # Rounding of |cosine| = 1 would be magnified by the square root.
    u = tl.where(u > SNAP, u, 0.0)
    factor = tl.load(coefficients + DEGREE) + tl.zeros_like(u)
    for power in tl.static_range(1, DEGREE + 1):
        factor = factor * u + tl.load(coefficients + DEGREE - power)
    sine = tl.sqrt(u * (2.0 - u)) * INVERSE_PI
    angle = sine * factor
    k0 = tl.where(sigma < 0, angle, 1.0 - angle)
    k1 = tl.maximum(sigma, 0.0) - sine * (size * factor - roots)
    return k0, k1, sine


@triton.jit
def plane(
    first_pixels,
    second_pixels,
    first_roots,
    second_roots,
    first_inverses,
    second_inverses,
    rows,
    columns,
    coefficients,
    partial,
    doubts,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_HEIGHT: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    LAYERS: tl.constexpr,
    REACH: tl.constexpr,
    TANGENT: tl.constexpr,
    TRAIN_FIRST: tl.constexpr,
    ADD_OWN: tl.constexpr,
    DEGREE: tl.constexpr,
    SNAP: tl.constexpr,
    DOUBTFUL: tl.constexpr,
):
    """Program (offset, pair): the sum over one circular plane of one pair's last layer, to partial[pair, offset].

    Its part whose angles have a sine over pi below DOUBTFUL goes to doubts[pair, offset].
    """
    offset = tl.program_id(0)
    pair = tl.program_id(1)
    one = tl.load(rows + pair).to(tl.int64)
    other = tl.load(columns + pair).to(tl.int64)
    row = tl.arange(0, BLOCK_HEIGHT)[:, None] + tl.zeros((BLOCK_HEIGHT, BLOCK_WIDTH), tl.int32)
    col = tl.arange(0, BLOCK_WIDTH)[None, :] + tl.zeros((BLOCK_HEIGHT, BLOCK_WIDTH), tl.int32)
    inside = (row < HEIGHT) & (col < WIDTH)
    second_row = (row + offset // WIDTH) % HEIGHT
    second_col = (col + offset % WIDTH) % WIDTH
    low_rows = tl.minimum(row, second_row)
    high_rows = HEIGHT - 1 - tl.maximum(row, second_row)
    low_cols = tl.minimum(col, second_col)
    high_cols = WIDTH - 1 - tl.maximum(col, second_col)
    area: tl.constexpr = HEIGHT * WIDTH
    patch: tl.constexpr = (2 * REACH + 1) * (2 * REACH + 1)
    here = row * WIDTH + col
    there = second_row * WIDTH + second_col

    first_pixels += one * CHANNELS * area
    second_pixels += other * CHANNELS * area
    products = tl.load(first_pixels + here, mask=inside, other=0.0) * tl.load(
        second_pixels + there, mask=inside, other=0.0
    )
    for channel in range(1, CHANNELS):
        products += tl.load(first_pixels + channel * area + here, mask=inside, other=0.0) * tl.load(
            second_pixels + channel * area + there, mask=inside, other=0.0
        )
    sigma = box_sum(products, row, col, low_rows, high_rows, low_cols, high_cols, REACH)
    theta = sigma if TRAIN_FIRST else tl.zeros_like(sigma)

    first_table = one * LAYERS * area + here
    second_table = other * LAYERS * area + there
    for _ in range(LAYERS - 1):
        inverse = tl.load(first_inverses + first_table, mask=inside, other=0.0) * tl.load(
            second_inverses + second_table, mask=inside, other=0.0
        )
        roots = tl.load(first_roots + first_table, mask=inside, other=0.0) * tl.load(
            second_roots + second_table, mask=inside, other=0.0
        )
        k0, k1, _ = relu_dual(sigma, inverse, roots, coefficients, DEGREE, SNAP)
        if TANGENT:
            theta = box_sum(k0 * theta + k1, row, col, low_rows, high_rows, low_cols, high_cols, REACH) / patch
        sigma = box_sum(k1, row, col, low_rows, high_rows, low_cols, high_cols, REACH) / patch
        first_table += area
        second_table += area

    inverse = tl.load(first_inverses + first_table, mask=inside, other=0.0) * tl.load(
        second_inverses + second_table, mask=inside, other=0.0
    )
    roots = tl.load(first_roots + first_table, mask=inside, other=0.0) * tl.load(
        second_roots + second_table, mask=inside, other=0.0
    )
    k0, k1, sine = relu_dual(sigma, inverse, roots, coefficients, DEGREE, SNAP)
    values = tl.zeros_like(sigma)
    if ADD_OWN:
        values += k1
    if TANGENT:
        values += k0 * theta
    place = pair.to(tl.int64) * tl.num_programs(0) + offset
    total = tl.sum(tl.sum(tl.where(inside, values, 0.0), axis=1), axis=0)
    tl.store(partial + place, total)
    if TANGENT and DOUBTFUL > 0:
        doubted = tl.where(inside & (sine < DOUBTFUL), k0 * theta, 0.0)
        tl.store(doubts + place, tl.sum(tl.sum(doubted, axis=1), axis=0))
