"""Accounts of trees and queues as the chain has them."""
