"""Programs whose compressible accounts are tracked, as ``program_id:discriminator``."""

from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.settings.keys import parse_pubkey

DISCRIMINATOR_BYTES = 8
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LONGEST = 11
"""Characters that 8 bytes have at most in base58."""


@dataclass(frozen=True)
class LightProgram:
    """A program, and the 8 bytes with which its compressible accounts begin."""

    program: Pubkey
    discriminator: bytes

    def __str__(self) -> str:
        return f"{self.program}:{self.discriminator.hex()}"


def parse_light_program(text: str) -> LightProgram:
    """Read ``program_id:discriminator``, both in base58. Raises ValueError."""
    program, separator, discriminator = text.strip().partition(":")
    if not separator:
        raise ValueError(f"{text}: expected program_id:discriminator, both in base58")
    try:
        key = parse_pubkey(program)
    except ValueError:
        raise ValueError(f"{text}: {program or 'nothing'} is not the address of a program") from None
    found = _decode_base58(discriminator)
    if found is None or len(found) != DISCRIMINATOR_BYTES:
        raise ValueError(f"{text}: expected a discriminator of {DISCRIMINATOR_BYTES} bytes in base58 after the colon")
    return LightProgram(key, found)


def _decode_base58(text: str) -> bytes | None:
    if len(text) > _LONGEST or any(letter not in _ALPHABET for letter in text):
        return None
    number = 0
    for letter in text:
        number = number * 58 + _ALPHABET.index(letter)
    zeros = len(text) - len(text.lstrip(_ALPHABET[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
