"""The wire between clients and the daemon, without input or output: JSON-RPC 2.0, one message a line.

Standard library only, since every command line loads it. docs/protocol.md describes it for people.
"""
