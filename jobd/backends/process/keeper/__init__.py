"""The keeper: the parent of all local jobs, which outlives the daemon so that no exit status is lost.

Standard library only and single-threaded; docs/keeper.md describes its wire and its journal.
"""
