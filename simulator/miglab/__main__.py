"""``python -m miglab`` is the same as the console script ``mig-lab``."""

import sys

from miglab.cli import main

if __name__ == "__main__":
    sys.exit(main())
