"""Proofs that this installation learns what it should, made with the code that a run executes."""
