"""Settings: ``load_settings(flags).settings`` reads and validates them all at once."""

from forester.settings.keys import SigningKey
from forester.settings.light_programs import LightProgram
from forester.settings.model import Settings
from forester.settings.sources import Loaded, given, load_settings, require, revealed

__all__ = ["LightProgram", "Loaded", "Settings", "SigningKey", "given", "load_settings", "require", "revealed"]
