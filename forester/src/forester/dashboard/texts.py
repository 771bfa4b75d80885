"""Numbers and times as the page shows them; no I/O. ``static/dashboard.js`` writes running times in the same way."""

from datetime import UTC, datetime

from forester.units import sol

NONE = "\u2013"
_THIN = "\u202f"
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: ``45 s``, ``4 min 05 s``, ``2 h 07 min``, ``3 d 4 h``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def clamp(at: float) -> float:
    """Return the Unix time from 1970 to 9999 that is next to ``at``: a forester may report any number as a time."""
    return min(max(at, 0.0), _LATEST)


def clock(at: float) -> str:
    """Return the time of day of a Unix time, in UTC."""
    return datetime.fromtimestamp(clamp(at), UTC).strftime("%H:%M:%S")


def iso(at: float) -> str:
    """Return a Unix time as an HTML time element has it."""
    return datetime.fromtimestamp(clamp(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: float) -> str:
    """Return a whole number with groups of three digits."""
    return f"{value:,.0f}".replace(",", _THIN)


def rate(per_second: float) -> str:
    """Return elements per minute, with a digit where it says something."""
    per_minute = per_second * 60
    return number(per_minute) if per_minute >= 10 or per_minute == 0 else f"{per_minute:.1f}"


def sols(lamports: int) -> str:
    """Return an amount in SOL with as many digits as an operator reads."""
    amount = sol(lamports)
    digits = 2 if abs(amount) >= 100 else 4 if abs(amount) >= 0.1 else 6
    return f"{amount:,.{digits}f}".replace(",", _THIN)


def short(address: str) -> str:
    """Return an address or signature with its middle left out."""
    return address if len(address) <= 12 else f"{address[:4]}\u2026{address[-4:]}"
