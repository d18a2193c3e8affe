"""The script by which processes of ours run a module: `python -P start_module.py convert.runners.child …`."""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
