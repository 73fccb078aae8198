"""Runs training systems side by side and measures them from the outside: time, throughput, memory."""
