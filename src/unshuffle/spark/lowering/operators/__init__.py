"""The lowering of each physical operator, by operator family as in `plan/physical/`."""
