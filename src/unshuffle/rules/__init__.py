"""Rules, one family a file, each ending in RULES = (...). Rewrites always help; alternatives are weighed by cost."""
