"""Running a lowered plan: settings, metrics, progress, failures, and the diff against Spark's executed plan."""
