"""Two lengths of search: 200 examples a test, the same every run; or 20,000 new ones (UNSHUFFLE_SOAK=1)."""

import os

from hypothesis import HealthCheck, settings

EVERY_CHECK = list(HealthCheck)

settings.register_profile(
    "normal", max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=EVERY_CHECK
)
settings.register_profile("soak", max_examples=20_000, deadline=None, suppress_health_check=EVERY_CHECK)
settings.load_profile("soak" if os.environ.get("UNSHUFFLE_SOAK") == "1" else "normal")
