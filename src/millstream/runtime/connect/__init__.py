"""How processes of one job talk: sockets that nobody else reaches, proofs, whole messages."""
