"""Gymnasium environments as vector environments with honest transitions."""
