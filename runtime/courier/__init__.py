"""Couriers: one process per node that mirrors rings and boards to other nodes over MPI. Knows nothing of learning."""
