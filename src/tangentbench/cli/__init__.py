"""The command line: `tangentbench list | show | estimate | check | run | data | doctor`."""

from tangentbench.cli.main import main

__all__ = ["main"]
