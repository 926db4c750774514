"""The Cascades search: a memo of logical alternatives, goals that are structural properties, exchanges as enforcers.

It is given rules and a cost model and knows no concrete operator but its enforcers, the sort and the exchange.
"""
