"""The reading of each of Catalyst's operators."""
