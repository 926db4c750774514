"""From Spark to a logical plan: Catalyst's analyzed plans, and the catalog of a Spark session."""
