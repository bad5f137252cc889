"""Started by the daemon as ``python -I -S .../keeper/__main__.py FOLDER``: without site-packages, to stay small."""

import sys
from os.path import abspath, dirname

sys.path.insert(0, dirname(dirname(dirname(dirname(dirname(abspath(__file__)))))))

from jobd.backends.process.keeper.keeper import main

if __name__ == "__main__":
    main(sys.argv[1])
