"""The command group, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from tangentbench import __version__
from tangentbench.cli.examples import examples
from tangentbench.errors import TangentbenchError

COMMANDS = {
    "list": "tangentbench.cli.list",
    "show": "tangentbench.cli.show",
    "estimate": "tangentbench.cli.estimate",
    "check": "tangentbench.cli.check",
    "run": "tangentbench.cli.run",
    "pull": "tangentbench.cli.pull",
    "data": "tangentbench.cli.data",
    "bound": "tangentbench.cli.bound",
    "doctor": "tangentbench.cli.doctor",
}


class LazyGroup(click.Group):
    """Imports a command's module only when it is asked for, so that `list` never waits for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[name]).command
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=examples("tangentbench list", "tangentbench run npk_fig6", "tangentbench show npk_fig6"),
)
@click.version_option(__version__, prog_name="tangentbench")
def group() -> None:
    """Rebuild the tables and figures of five papers on wide, deep and gated networks, and see what held."""


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: an error a user can fix is one sentence on stderr and exit code 1."""
    try:
        return group.main(args=arguments, prog_name="tangentbench", standalone_mode=True)
    except TangentbenchError as error:
        click.echo(f"tangentbench: error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
