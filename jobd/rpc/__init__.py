"""The daemon's side of the socket: connections, dispatch, and one module a method group under ``methods``."""
