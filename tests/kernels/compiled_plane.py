"""Compile the Triton kernel for a GPU that need not be here, and print what it takes of the GPU's resources.

A process of its own: Triton's interpreter leaves its language changed. Usage: compiled_plane.py CAPABILITY FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tangentbench.kernels._backends.triton_plane import plane

SIZES = {"HEIGHT": 32, "WIDTH": 32, "BLOCK_HEIGHT": 32, "BLOCK_WIDTH": 32, "CHANNELS": 3, "LAYERS": 10, "REACH": 1}
CHOICES: dict[str, Any] = {
    "TANGENT": True,
    "TRAIN_FIRST": False,
    "ADD_OWN": False,
    "DEGREE": 9,
    "SNAP": 2e-6,
    "DOUBTFUL": 1e-3,
}
WARPS = 8


def main() -> None:
    capability, folder = int(sys.argv[1]), Path(sys.argv[2])
    constants = SIZES | CHOICES
    types = {name: "constexpr" if name in constants else "*fp32" for name in plane.arg_names}
    types |= {"rows": "*i32", "columns": "*i32"}
    places = {(plane.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=plane, signature=types, constexprs=places)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": WARPS})
    binary = folder / "plane.cubin"
    binary.write_bytes(compiled.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    subprocess.run([tool, "-res-usage", binary], check=True)


if __name__ == "__main__":
    main()
