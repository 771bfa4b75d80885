"""Conversion of this process's chain to the indexer's input."""

from collections.abc import Callable
from typing import TypeVar

from solders.pubkey import Pubkey

from localnet.borsh import MalformedData
from localnet.chain.blocks import Block as ChainBlock
from localnet.chain.blocks import ExecutedInstruction, RecordedTransaction
from localnet.chain.network import Network
from localnet.chain.transaction_errors import describe
from localnet.indexer.accounts.tree_accounts import TreeAccount, decode_tree_account
from localnet.indexer.decoding.source import Block, Instruction, Transaction
from localnet.indexer.programs import ACCOUNT_COMPRESSION, INSERT_INTO_QUEUES, NOOP

Queue = TypeVar("Queue")


def convert_block(block: ChainBlock) -> Block:
    """Return a block with its keys as bytes."""
    return Block(
        slot=block.slot,
        time=block.block_time,
        hash=bytes(block.blockhash),
        transactions=tuple(map(_transaction, block.transactions)),
    )


def _transaction(done: RecordedTransaction) -> Transaction:
    groups = tuple(
        (_instruction(outer), *map(_instruction, inner))
        for outer, inner in zip(done.instructions, done.inner_instructions, strict=True)
    )
    return Transaction(bytes(done.signature), groups, None if done.err is None else describe(done.err))


def _instruction(done: ExecutedInstruction) -> Instruction:
    return Instruction(bytes(done.program), tuple(map(bytes, done.accounts)), done.data, done.stack_height)


def may_make_trees(block: Block) -> bool:
    """Return whether account compression did something that it neither reports nor queues, such as making a tree."""
    return any(
        instruction.program == ACCOUNT_COMPRESSION
        and instruction.data[:8] != INSERT_INTO_QUEUES
        and (following is None or following.program != NOOP)
        for transaction in block.transactions
        if transaction.error is None
        for group in transaction.groups
        for instruction, following in zip(group, (*group[1:], None), strict=True)
    )


def read_tree(network: Network, key: bytes) -> TreeAccount | None:
    """Return the tree account of a key as it is on chain."""
    account = network.account(Pubkey(key))
    return None if account is None else _decoded(key, bytes(account.data))


def read_trees(network: Network) -> list[TreeAccount]:
    """Return all trees on chain, by key."""
    accounts = sorted(network.program_accounts(Pubkey(ACCOUNT_COMPRESSION)), key=lambda pair: bytes(pair[0]))
    trees = (_decoded(bytes(key), bytes(account.data)) for key, account in accounts)
    return [tree for tree in trees if tree is not None]


def read_queue(network: Network, key: bytes, decode: Callable[[bytes], Queue | None]) -> Queue | None:
    """Return the queue in an account; None if there is no such account, or ``decode`` finds none in it."""
    account = network.account(Pubkey(key))
    try:
        return None if account is None else decode(bytes(account.data))
    except MalformedData:
        return None


def _decoded(key: bytes, data: bytes) -> TreeAccount | None:
    try:
        return decode_tree_account(key, data)
    except (MalformedData, ValueError):
        return None  # not a tree; an account of that program may hold anything while it is created
