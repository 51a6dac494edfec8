"""The examples at the foot of every `--help`."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """An epilog that click leaves unwrapped (it does so after a line that holds only \\b)."""
    return "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in lines)
