"""unshuffle: a cost-based, partition-aware query optimizer for Apache Spark."""
