"""Results of volunteers: what one machine tells of a run, how that is sent, and who keeps it.

``manifest`` is what client and server agree on. The other modules are the client, which never
imports ``server``.
"""
