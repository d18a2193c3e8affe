"""Convert a SavedModel with TensorFlow.js's converter and run the result in TensorFlow.js (`run_tfjs.mjs`)."""

import subprocess
import sys
from pathlib import Path

path, made = sys.argv[1], sys.argv[1] + ".tfjs"
command = [str(Path(sys.executable).parent / "tensorflowjs_converter"), "--input_format=tf_saved_model"]
found = subprocess.run([*command, "--signature_name=serving_default", path, made], capture_output=True, text=True)
if found.returncode:
    raise SystemExit(found.stdout + found.stderr)
script = Path(__file__).with_suffix(".mjs")
raise SystemExit(subprocess.run(["node", str(script), made, *sys.argv[2:]]).returncode)
