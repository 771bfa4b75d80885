"""An example of a property may take as long as a loaded machine needs, and so may making one up."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
