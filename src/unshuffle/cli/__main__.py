"""`python -m unshuffle.cli`."""

from unshuffle.cli import main

main()
