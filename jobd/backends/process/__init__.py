"""OS processes of this machine, as children of a keeper that outlives the daemon.

Nothing is imported here: the keeper, which shares this package, must stay small.
"""
