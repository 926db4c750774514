"""From plans to Spark queries: the optimized plan, and the baseline translation it falls back to."""
