"""Places where jobs run, and the contract that they fulfil."""
