"""The `unshuffle` command, one file a command. Results go to standard output, everything else to standard error."""

from unshuffle.cli.main import main

__all__ = ["main"]
