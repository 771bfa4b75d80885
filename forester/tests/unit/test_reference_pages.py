"""Pages that are generated say what the program says."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from forester.settings import Settings
from forester.settings.sources import flag, variable


def _generator() -> ModuleType:
    # The prover's script has the same name, so it is imported by its path.
    path = Path(__file__).resolve().parents[2] / "scripts" / "regenerate_reference.py"
    spec = importlib.util.spec_from_file_location("forester_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


@pytest.mark.parametrize("path", GENERATOR.pages(), ids=lambda path: path.name)
def test_page__as_committed__is_that_of_the_program(path: Path) -> None:
    assert path.read_text() == GENERATOR.pages()[path], f"run {GENERATOR.SCRIPT}"


def test_settings_page__has_every_setting_with_its_variable_and_option() -> None:
    page = GENERATOR.settings_page()
    for name, field in Settings.model_fields.items():
        assert f"`{variable(name)}`" in page
        assert f"`{flag(name)}`" in page
        assert field.description, name
