"""The N cheapest plans of a search, in order of their cost."""
