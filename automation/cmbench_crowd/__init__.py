"""Results of volunteers: what a machine reports about a run, how that is sent, and who stores it.

``manifest`` is what client and server agree on. The other modules are the client; the server is a
distribution of its own, ``cmbench_crowd_server``.
"""

__all__ = ["client_home", "contribute", "leases", "manifest", "verbs"]
