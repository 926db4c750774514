"""Two lengths of search: 200 examples a test, the same every run; or 20,000 new ones (UNSHUFFLE_SOAK=1)."""

import os

from hypothesis import HealthCheck, Phase, settings

EVERY_CHECK = list(HealthCheck)

settings.register_profile(
    "normal", max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=EVERY_CHECK
)
settings.register_profile("soak", max_examples=20_000, deadline=None, suppress_health_check=EVERY_CHECK)
# A planted fault needs finding, not explaining.
settings.register_profile("mutants", settings.get_profile("normal"), phases=[Phase.explicit, Phase.generate])
wanted = [name for name in ("soak", "mutants") if os.environ.get(f"UNSHUFFLE_{name.upper()}") == "1"]
settings.load_profile(wanted[0] if wanted else "normal")
