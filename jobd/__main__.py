"""``python -m jobd``."""

import sys

from jobd.cli import main

if __name__ == "__main__":
    sys.exit(main())
