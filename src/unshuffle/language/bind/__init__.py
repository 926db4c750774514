"""From statements to a bound logical plan."""
