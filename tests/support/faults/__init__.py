"""A cluster whose tasks wait for permission, so that faults strike in a stage of our choice."""
