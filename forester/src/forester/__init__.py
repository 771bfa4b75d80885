"""Daemon and operator's command line that keeps Light Protocol's Merkle trees moving."""
