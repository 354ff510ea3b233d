"""The server of volunteers' results: takes uploads, checks them itself, says how far to trust them.

``files`` keeps what is sent, ``ledger`` knows about it, ``recompute`` reads the logs in a process
of its own, ``judge`` compares independent hosts, ``work`` is the list of what is wanted,
``checker`` does what follows an upload, ``api`` and ``pages`` answer requests.
"""
