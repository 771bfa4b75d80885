"""An example of a property may take as long as a loaded machine needs."""

from hypothesis import settings

settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")
