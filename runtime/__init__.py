"""What runs on the nodes: the training components, their memory, and the agents that look after them."""
