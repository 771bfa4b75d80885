"""For the tests of every member: an example may take as long as a loaded machine needs."""

from hypothesis import settings

settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")
