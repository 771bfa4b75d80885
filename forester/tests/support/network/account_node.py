"""An RPC node with any number of compressible token accounts, which answers the calls of a scan."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from functools import cached_property
from typing import Any

from aiohttp import web
from compressible_accounts import account_data
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.compressible.token_account import OWNER_OFFSET

FIRST_BYTES = 256
LAMPORTS = 2_011_000
RENT = 400
LONGEST_EPOCHS = 10


def address_of(number: int) -> Pubkey:
    """Return the address of an account."""
    return Pubkey(hashlib.sha256(number.to_bytes(8, "big")).digest())


def prepaid_epochs(number: int) -> int:
    """Return the rent epochs that an account has paid: 2 to 11."""
    return 2 + number % LONGEST_EPOCHS


class AccountNode:
    """The node; ``paged`` says whether it has getProgramAccountsV2. ``calls`` counts the calls by method."""

    def __init__(self, accounts: int, *, paged: bool = False, slot: int = 10) -> None:
        self.accounts = accounts
        self.paged = paged
        self.slot = slot
        self.calls: Counter[str] = Counter()
        self.largest_answer = 0

    @property
    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**20)
        application.router.add_post("/", self._handle)
        return application

    @cached_property
    def _texts(self) -> list[bytes]:
        """The accounts as JSON, by number; they differ in address, owner, and balance."""
        data = account_data()
        sliced = base64.b64encode(data[165:272]).decode()
        return [
            json.dumps(
                {
                    "pubkey": str(address_of(number)),
                    "account": {
                        "lamports": LAMPORTS + prepaid_epochs(number) * RENT,
                        "owner": str(COMPRESSED_TOKEN),
                        "data": [sliced, "base64"],
                        "executable": False,
                        "rentEpoch": 18446744073709551615,
                        "space": len(data),
                    },
                }
            ).encode()
            for number in range(self.accounts)
        ]

    async def _handle(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        method, params = body["method"], body["params"]
        self.calls[method] += 1
        if method == "getSlot":
            return self._answer(str(self.slot).encode())
        if method == "getMinimumBalanceForRentExemption":
            return self._answer(str((128 + params[0]) * 6960).encode())
        if method == "getProgramAccounts":
            return self._answer(b"[" + b",".join(self._matching(params[1]["filters"])) + b"]")
        if method == "getProgramAccountsV2" and self.paged:
            found = self._matching(params[1]["filters"])
            begin, limit = int(params[1].get("paginationKey", 0)), params[1]["limit"]
            page = found[begin : begin + limit]
            key = json.dumps(str(begin + limit) if begin + limit < len(found) else None).encode()
            return self._answer(b'{"accounts":[' + b",".join(page) + b'],"paginationKey":' + key + b"}")
        refusal = {"code": -32601, "message": f"Method not found: {method}"}
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": refusal})

    def _matching(self, filters: list[dict[str, Any]]) -> list[bytes]:
        """Return the accounts that have a first byte of their owner, which is their number, or all."""
        for item in filters:
            if item["memcmp"]["offset"] == OWNER_OFFSET:
                return self._texts[base64.b64decode(item["memcmp"]["bytes"])[0] :: FIRST_BYTES]
        types = [item for item in filters if item["memcmp"]["offset"] == 165]
        is_tokens = any(base64.b64decode(item["memcmp"]["bytes"]) == b"\x02" for item in types)
        return self._texts if is_tokens else []

    def _answer(self, result: bytes) -> web.Response:
        content = b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"
        self.largest_answer = max(self.largest_answer, len(content))
        return web.Response(body=content, content_type="application/json")
