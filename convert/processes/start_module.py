"""The script that runs a module in our processes: `python -P start_module.py convert.processes.child …`."""

import runpy
import sys

from convert.processes.interpreter import claim_process

if __name__ == "__main__":
    claim_process()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
