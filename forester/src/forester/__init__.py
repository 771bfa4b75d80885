"""Daemon that moves queued elements into Light Protocol's Merkle trees, and its command line."""
