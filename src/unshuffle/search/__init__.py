"""The Cascades search: a memo of logical alternatives, goals that are structural properties, exchanges as enforcers.

Rules, implementations and the cost model are arguments. The only operators that the search knows are those that it inserts
itself: sorts and exchanges (`enforcers`), the combining aggregates of `aggregation_trees`, and the reads of `spools`.
"""
