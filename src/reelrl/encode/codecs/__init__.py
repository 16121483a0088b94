"""SVT-AV1 and libaom behind one protocol: what each can do, sessions, worker processes, deadlines."""
