"""The page of all settings: it is generated, and says what the settings are."""

import pytest
import regenerate_settings

from prover.settings import DeviceSettings, Settings

pytestmark = pytest.mark.usefixtures("no_variables")


def test_page__as_committed__is_that_of_the_settings() -> None:
    assert regenerate_settings.PAGE.read_text() == regenerate_settings.page(), (
        "run prover/scripts/regenerate_settings.py"
    )


def test_page__of_the_settings__has_every_one_with_its_option_default_and_meaning() -> None:
    rows = [line for line in regenerate_settings.page().splitlines() if line.startswith("| `PROVER_")]
    grouped = [getattr(Settings(), name) for name in ("http", "keys", "proving", "queue", "log")]
    assert len(rows) == len(DeviceSettings.model_fields) + sum(len(type(group).model_fields) for group in grouped)
    (row,) = (row for row in rows if "PROVER_KEYS__MEMORY_GIB" in row)
    assert [cell.strip() for cell in row.split("|")[2:4]] == ["`--key-memory-gb`", "`0`"]
    assert "half of the total" in row
