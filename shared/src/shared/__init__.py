"""Packages of both services."""
