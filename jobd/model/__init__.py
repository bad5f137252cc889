"""What a job is: identifiers, states and their table, template, information, errors. Pure: no input or output.

The hot command-line verbs import single modules of this package (``ids``, ``units``, ``errors``), which need the
standard library only; so this file imports nothing.
"""
