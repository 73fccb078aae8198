"""The two data-plane shapes (ring, board) and the heartbeat blocks, over memfd mappings. NumPy only; knows no RL."""
