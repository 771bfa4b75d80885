"""Synchronisation of the database with a chain, and its comparison with the accounts there."""
