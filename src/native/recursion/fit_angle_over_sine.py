"""Write angle_over_sine.hpp: the minimax polynomials of relu_dual.hpp, by the Remez exchange in 40 digits.

F(u) = 1 + u H(u) with H fitted, so that F(0) = 1 exactly. The weight makes the error of k0 smaller where u is small:
there an error of k1 would add up over the layers.

    python src/native/recursion/fit_angle_over_sine.py > src/native/recursion/angle_over_sine.hpp
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 40
Function = Callable[[mp.mpf], mp.mpf]
POINTS_PER_EXTREMUM = 60


def sine(u: mp.mpf) -> mp.mpf:
    return mp.sqrt(u * (2 - u))


def rise(u: mp.mpf) -> mp.mpf:
    """H(u) = (theta / sin(theta) - 1) / u with theta = acos(1 - u)."""
    return (mp.acos(1 - u) / sine(u) - 1) / u


def importance(u: mp.mpf) -> mp.mpf:
    """What an error of H does to k0, more where u is small."""
    return sine(u) * u / mp.pi / (u + mp.mpf("0.05"))


def minimax(function: Function, weight: Function, degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients, constant first, and the largest weighted error on (0, 1]."""
    count = degree + 2
    nodes = [(1 - mp.cos(mp.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]
    grid = [(1 - mp.cos(mp.pi * k / (POINTS_PER_EXTREMUM * count))) / 2 for k in range(1, POINTS_PER_EXTREMUM * count)]
    grid.append(mp.mpf(1))
    values = [function(x) for x in grid]
    for _ in range(8):
        system, right = mp.matrix(count, count), mp.matrix(count, 1)
        for k, x in enumerate(nodes):
            for power in range(degree + 1):
                system[k, power] = x**power
            system[k, degree + 1] = (-1) ** k / weight(x)
            right[k] = function(x)
        solution = mp.lu_solve(system, right)
        coefficients = [solution[power] for power in range(degree + 1)]
        errors = [(mp.polyval(coefficients[::-1], x) - y) * weight(x) for x, y in zip(grid, values, strict=True)]
        extrema = alternating_extrema(grid, errors)
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < count:
            break
        nodes = [x for x, _ in extrema]
    return coefficients, max(abs(error) for error in errors)


def alternating_extrema(grid: list[mp.mpf], errors: list[mp.mpf]) -> list[tuple[mp.mpf, mp.mpf]]:
    """The largest error of every run of equal sign."""
    extrema: list[tuple[mp.mpf, mp.mpf]] = []
    for x, error in zip(grid, errors, strict=True):
        if extrema and extrema[-1][1] * error > 0:
            if abs(error) > abs(extrema[-1][1]):
                extrema[-1] = (x, error)
        else:
            extrema.append((x, error))
    return extrema


def structure(scalar: str, suffix: str, digits: int, degree: int, snap: str, smallest: str) -> str:
    coefficients, error = minimax(rise, importance, degree - 1)
    coefficients = [mp.mpf(1), *coefficients]
    numbers = "\n".join(f"        {mp.nstr(c, digits, min_fixed=0, max_fixed=0)}{suffix}," for c in coefficients)
    return f"""template <>
struct AngleOverSine<{scalar}> {{
    static constexpr int degree = {degree};  // error of k0: at most {mp.nstr(error * mp.mpf("1.05"), 2)}
    static constexpr {scalar} coefficients[] = {{
{numbers}
    }};
    // A u below this is the rounding of u = 0.
    static constexpr {scalar} snap = {snap};
    // A variance below this counts as zero.
    static constexpr {scalar} smallest = {smallest};
}};
"""


def main() -> None:
    print("// Written by fit_angle_over_sine.py.\n#pragma once\n\nnamespace {\n")
    print("template <class Scalar>\nstruct AngleOverSine;\n")
    print(structure("float", "f", 10, 8, "0x1p-21f", "1e-30f"))
    print(structure("double", "", 20, 18, "0x1p-50", "1e-250"))
    print("}  // namespace")


if __name__ == "__main__":
    main()
