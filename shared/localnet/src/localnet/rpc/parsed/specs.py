"""Description of instructions: names of fields and accounts, as nodes write them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.fields import Field, Read, members

Json = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """One instruction of a program.

    ``accounts`` are names in order. A name that ends with ``?`` names an optional account, omitted if it is missing;
    one that ends with ``!`` is then null. ``signer`` names the authority that follows them: alone, and as a multisig,
    whose signers follow. ``rest`` names the list of all further accounts.
    """

    kind: str
    accounts: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    signer: tuple[str, str] | None = None
    rest: str | None = None
    minimum: int | None = None
    exact: bool = False
    """Whether bytes after the fields make the instruction invalid."""
    finish: Callable[[Json, Sequence[str], Reader], Json] | None = None

    def parse(self, cursor: Reader, accounts: Sequence[str]) -> Json:
        """Return type and info of an instruction; raise MalformedData if fields or accounts are missing."""
        info = members(cursor, self.fields)
        if self.exact and cursor.rest():
            raise MalformedData
        required = sum(name[-1] not in "?!" for name in self.accounts) + (self.signer is not None)
        if len(accounts) < (required if self.minimum is None else self.minimum):
            raise MalformedData
        for index, name in enumerate(self.accounts):
            if index < len(accounts):
                info[name.rstrip("?!")] = accounts[index]
            elif name.endswith("!"):
                info[name[:-1]] = None
        following = accounts[len(self.accounts) :]
        if self.rest is not None:
            info[self.rest] = list(following)
        elif self.signer is not None:
            info |= signers(following, self.signer)
        if self.finish is not None:
            info = self.finish(info, accounts, cursor)
        return {"type": self.kind, "info": info} if info else {"type": self.kind}


exact_spec = partial(Spec, exact=True)


def signers(accounts: Sequence[str], names: tuple[str, str]) -> Json:
    """Return the authority, and the signers of a multisig."""
    if len(accounts) == 1:
        return {names[0]: accounts[0]}
    return {names[1]: accounts[0], "signers": list(accounts[1:])}


def authority(name: str) -> tuple[str, str]:
    """Return the two names of an authority."""
    return name, "multisig" + name[0].upper() + name[1:]


def choose(specs: Mapping[int, Spec], tag: Read) -> Callable[[bytes, Sequence[str]], Json]:
    """Return a parser that selects the instruction by its first bytes."""

    def parse(data: bytes, accounts: Sequence[str]) -> Json:
        cursor = Reader(data)
        spec = specs.get(tag(cursor))
        if spec is None or not accounts:
            raise MalformedData
        return spec.parse(cursor, accounts)

    return parse
