#!/bin/sh
# Finds a Python that can run unshuffle and hands over to tools/set_up.py, which does the rest.
# Usage: tools/setup.sh venv | java
set -eu
cd "$(dirname "$0")/.."

for python in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14 python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" tools/set_up.py "$@"
    fi
done

found=$(python3 --version 2>/dev/null || echo "no python3")
cat >&2 <<TEXT
unshuffle needs Python 3.11 or newer; this machine has $found on its PATH.
  Debian, Ubuntu   sudo apt-get install python3 python3-venv   (Debian 12, Ubuntu 24.04 or newer)
  Fedora           sudo dnf install python3.12
  macOS            brew install python@3.12
A Python that is elsewhere is named like this: make setup PYTHON=/path/to/python3.12
TEXT
exit 1
