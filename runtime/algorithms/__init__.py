"""Learning algorithms: batches in, better parameters out. They know no process, clock or transport."""
