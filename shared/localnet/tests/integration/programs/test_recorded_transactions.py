"""The recorded transactions, byte for byte, on the real programs: same units, calls, accounts and events."""

from __future__ import annotations

import pytest
from chains import AUTHORITY, FORESTER, artefacts_of_recordings, funded, registered_inserter, replay
from recorded import Recorded, recorded
from solders.pubkey import Pubkey

from localnet.chain import addresses
from localnet.chain.artefacts import load_artefacts
from localnet.chain.blocks import RecordedTransaction
from localnet.chain.execution import TransactionRefused
from localnet.chain.network import Network


def latest_root(network: Network, tree: Pubkey) -> str:
    account = network.account(tree)
    assert account is not None
    data = bytes(account.data)
    current, capacity = (int.from_bytes(data[at : at + 8], "little") for at in (680, 696))
    at = 704 + 32 * ((current - 1) % capacity)
    return data[at : at + 32].hex()


def data_of(network: Network, pubkey: str) -> str:
    account = network.account(Pubkey.from_string(pubkey))
    assert account is not None
    return bytes(account.data).hex()


def noop_data(done: RecordedTransaction) -> list[str]:
    return [call.data.hex() for group in done.inner_instructions for call in group if call.program == addresses.NOOP]


def check_execution(done: RecordedTransaction, facts: Recorded) -> None:
    assert str(done.signature) == facts["signature"]
    assert [str(key) for key in done.account_keys] == facts["account_keys"]
    assert done.compute_units == facts["compute_units"]
    assert done.fee == 5000 * len(done.transaction.signatures)
    assert sum(done.pre_balances) - sum(done.post_balances) == done.fee


@pytest.fixture
def network() -> Network:
    network = funded(artefacts_of_recordings(), check_blockhash=False)
    epoch = recorded("registry_epoch_txs")
    replay(network, epoch["register_forester"])
    replay(network, epoch["register_forester_epoch"])
    network.warp(500)
    replay(network, epoch["finalize_registration"])
    network.warp(505)
    return network


def test_registration__recorded_transactions__leave_the_recorded_accounts() -> None:
    network = funded(artefacts_of_recordings(), check_blockhash=False)
    epoch = recorded("registry_epoch_txs")
    check_execution(replay(network, epoch["register_forester"]), epoch["register_forester"])
    assert (
        data_of(network, epoch["register_forester"]["forester_pda"]["pubkey"])
        == (epoch["register_forester"]["forester_pda"]["data"])
    )
    check_execution(replay(network, epoch["register_forester_epoch"]), epoch["register_forester_epoch"])
    for name in ("epoch_pda", "forester_epoch_pda"):
        facts = epoch["register_forester_epoch"][name]
        assert data_of(network, facts["pubkey"]) == facts["data"]
    network.warp(500)
    check_execution(replay(network, epoch["finalize_registration"]), epoch["finalize_registration"])
    assert (
        data_of(network, epoch["register_forester_epoch"]["forester_epoch_pda"]["pubkey"])
        == (epoch["finalize_registration"]["forester_epoch_pda"]["data"])
    )


def test_cycle__compress_append_spend_nullify_address_report__follows_the_record(network: Network) -> None:
    compress = recorded("compress_sol_tx")
    check_execution(replay(network, compress), compress)

    append = recorded("batch_append_tx")
    assert latest_root(network, addresses.STATE_TREE) == append["old_root"]
    done = replay(network, append)
    check_execution(done, append)
    assert noop_data(done) == [append["event"]]
    assert latest_root(network, addresses.STATE_TREE) == append["new_root"]

    nullify = recorded("batch_nullify_tx")
    spend = replay(network, nullify["spend"])
    assert spend.compute_units == nullify["spend"]["compute_units"]
    done = replay(network, nullify)
    check_execution(done, nullify)
    assert latest_root(network, addresses.STATE_TREE) == nullify["new_root"]

    address = recorded("batch_update_address_tree_tx")
    done = insert_addresses_and_update(network, address)
    assert noop_data(done) == [address["event"]]
    assert latest_root(network, addresses.ADDRESS_TREE) == address["new_root"]

    network.warp(700)
    report = recorded("registry_epoch_txs")["report_work"]
    check_execution(replay(network, report), report)


def insert_addresses_and_update(network: Network, facts: Recorded) -> RecordedTransaction:
    """Queue the recorded addresses through a registered program of our own, then replay the recorded update."""
    inserter = registered_inserter(network)
    for instruction in facts["insert_instructions"]:
        addresses_inserted = inserter.insert(bytes.fromhex(instruction["data"]), [addresses.ADDRESS_TREE])
        assert addresses_inserted.err is None, addresses_inserted.logs
    return replay(network, facts)


def test_submit__transaction_executed_before__is_refused(network: Network) -> None:
    replay(network, recorded("compress_sol_tx"))
    with pytest.raises(TransactionRefused, match="AlreadyProcessed"):
        replay(network, recorded("compress_sol_tx"))


def test_append__programs_with_their_own_key__fail_with_the_documented_code(network: Network) -> None:
    published = funded(load_artefacts().with_protocol_authority(AUTHORITY.pubkey()), check_blockhash=False)
    published.restore(network.state())
    replay(published, recorded("compress_sol_tx"))
    raw = bytes.fromhex(recorded("batch_append_tx")["tx_hex"])
    before = published.account(FORESTER.pubkey())
    done = published.submit(raw)
    assert done.err == {"InstructionError": [1, {"Custom": 13006}]}
    after = published.account(FORESTER.pubkey())
    assert before is not None
    assert after is not None
    assert before.lamports - after.lamports == done.fee == 5000
    assert latest_root(published, addresses.STATE_TREE) == recorded("batch_append_tx")["old_root"]
