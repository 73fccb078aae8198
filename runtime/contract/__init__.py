"""The types that both sides share: job, plan, view, messages, paths. Nothing here imports torch, MPI or a transport."""
