"""Conversion of transactions to typed events."""
