"""The statements of a script: EXTRACT, PROCESS, REDUCE, COMBINE and OUTPUT."""
