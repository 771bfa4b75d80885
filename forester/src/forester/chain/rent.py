"""The rent that an account may cost; no I/O.

A cluster asks for ``(128 + bytes) * lamports per byte-year * 2 years``. The public clusters use 3,480 lamports per
byte-year. A cluster may be cheaper than the formula. A more expensive one needs a setting, because the answer of a
node decides how much the payer pays.
"""

from forester.errors import MalformedAnswer
from forester.units import LAMPORTS_PER_BYTE_YEAR

_OVERHEAD_BYTES = 128
_YEARS = 2


class ExcessiveRent(MalformedAnswer, retryable=False):
    """A node asks for more rent than an account can cost."""


def maximum_rent(data_length: int, lamports_per_byte_year: int = LAMPORTS_PER_BYTE_YEAR) -> int:
    """Return the maximum rent of an account in lamports."""
    return (_OVERHEAD_BYTES + data_length) * lamports_per_byte_year * _YEARS


def checked_rent(answer: int, data_length: int, lamports_per_byte_year: int = LAMPORTS_PER_BYTE_YEAR) -> int:
    """Return a node's answer in lamports; ExcessiveRent above the formula, MalformedAnswer below 0."""
    if answer < 0:
        raise MalformedAnswer(f"the node asks for a rent of {answer} lamports; use another node")
    maximum = maximum_rent(data_length, lamports_per_byte_year)
    if answer > maximum:
        raise ExcessiveRent(
            f"the node asks for a rent of {answer} lamports for {data_length} bytes, the maximum is {maximum}; use "
            "another node, or raise --rent-lamports-per-byte-year on a more expensive cluster "
            f"(now {lamports_per_byte_year})"
        )
    return answer
