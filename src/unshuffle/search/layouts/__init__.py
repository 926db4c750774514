"""The layouts that the search enumerates: ranges, alignments of several inputs, targeted broadcasts, output ranges."""
