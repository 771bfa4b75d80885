"""Networks that limits per address count by."""

import pytest

from prover.http.access.clients import network_of, peer_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::1", "2001:db8:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "not an address"),
    ],
)
def test_network__of_an_address__is_what_one_host_may_use_in_full(address: str, network: str) -> None:
    assert network_of(address) == network
    assert peer_network((address, 1)) == network


@pytest.mark.parametrize("peer", [None, "", (), "/run/socket"])
def test_network__of_a_peer_without_an_address__is_one_for_all(peer: object) -> None:
    assert peer_network(peer) == ""
