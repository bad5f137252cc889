"""One module a verb: ``main(words)`` returns the exit code."""
