"""The command line: `tangentbench list | show | estimate | check | run | pull | data | doctor | bound`."""

from tangentbench.cli.main import main

__all__ = ["main"]
