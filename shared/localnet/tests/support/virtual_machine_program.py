"""ELF files of programs for the Solana virtual machine (sBPF, version 0; 64 bits), from their machine code."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_NAMES = b"\0.text\0.dynamic\0.dynsym\0.dynstr\0.rel.dyn\0.shstrtab\0"
_R_BPF_64_32 = 10


def elf(text: bytes, calls: Mapping[int, str]) -> bytes:
    """Return a program that begins at the start of ``text``; ``calls`` are the system calls by their offset in it."""
    known = sorted(set(calls.values()))
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in known)
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", strings.index(b"\0" + name.encode() + b"\0") + 1, 0x10, 0, 0, 0, 0) for name in known
    )  # global, undefined
    head = 64 + 2 * 56
    places = [head]
    dynamic_bytes, relocation_bytes = 7 * 16, 16 * len(calls)
    for part in (len(text), dynamic_bytes, len(symbols), -(-len(strings) // 8) * 8, relocation_bytes):
        places.append(places[-1] + part)
    at_text, at_dynamic, at_symbols, at_strings, at_relocations, at_names = places
    relocations = b"".join(
        struct.pack("<QQ", at_text + offset, known.index(name) + 1 << 32 | _R_BPF_64_32)
        for offset, name in sorted(calls.items())
    )
    tags = (
        *((17, at_relocations), (18, relocation_bytes), (19, 16)),
        *((6, at_symbols), (5, at_strings), (10, len(strings)), (0, 0)),
    )
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    at_sections = -(-(at_names + len(_NAMES)) // 8) * 8
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 247, 1, at_text, 64, at_sections, 0, 64, 56, 2, 64, 7, 6)
    loads = struct.pack("<IIQQQQQQ", 1, 5, at_text, at_text, at_text, len(text), len(text), 8)
    loads += struct.pack("<IIQQQQQQ", 2, 6, at_dynamic, at_dynamic, at_dynamic, len(dynamic), len(dynamic), 8)
    rows = (
        *(("", 0, 0, 0, 0, 0, 0), (".text", 1, 6, at_text, len(text), 0, 0)),
        *((".dynamic", 6, 3, at_dynamic, len(dynamic), 4, 16), (".dynsym", 11, 2, at_symbols, len(symbols), 4, 24)),
        *(
            (".dynstr", 3, 2, at_strings, len(strings), 0, 0),
            (".rel.dyn", 9, 2, at_relocations, relocation_bytes, 3, 16),
        ),
        (".shstrtab", 3, 0, at_names, len(_NAMES), 0, 0),
    )
    sections = b"".join(
        struct.pack(
            "<IIQQQQIIQQ",
            *(_NAMES.index(name.encode() + b"\0") if name else 0, kind, flags),
            *(place if flags else 0, place, size, link, 0, 8 if kind else 0, entry),
        )
        for name, kind, flags, place, size, link, entry in rows
    )
    content = (
        header + loads + text + dynamic + symbols + strings.ljust(at_relocations - at_strings, b"\0") + relocations
    )
    return (content + _NAMES).ljust(at_sections, b"\0") + sections
