#!/bin/sh
# Makes a Python 3.8 environment with the last PyTorch that holds Caffe2, for the tests that run the real one:
#
#     if tests/caffe2_python.sh DIRECTORY; then export CONVERT_CAFFE2_PYTHON="DIRECTORY/bin/python"; fi
#
# Where there is no Python 3.8, or the packages cannot be had, it says so on stderr and fails: those tests then skip.
set -eu

directory=${1:?usage: tests/caffe2_python.sh DIRECTORY}
check='from caffe2.python import workspace'

# The newest 3.8 of pyenv, else one on the PATH (behind a shim of pyenv it may be one that does not run).
python=
if command -v pyenv >/dev/null 2>&1; then
    version=$(pyenv versions --bare 2>/dev/null | grep -E '^3\.8(\.[0-9]+)?$' | sort -V | tail -n 1 || true)
    [ -z "$version" ] || python="$(pyenv prefix "$version")/bin/python"
fi
if [ -z "$python" ] && python3.8 -c '' >/dev/null 2>&1; then
    python=$(command -v python3.8)
fi
if [ -z "$python" ]; then
    echo "no Python 3.8 found: the tests on the real Caffe2 will skip" >&2
    exit 1
fi

if ! "$directory/bin/python" -I -c "$check" >/dev/null 2>&1; then
    rm -rf "$directory"
    "$python" -m venv "$directory"
    if ! "$directory/bin/python" -m pip install --quiet --disable-pip-version-check \
        torch==1.8.1 "numpy<1.24" future "protobuf<3.21" six "onnx==1.8.1" >&2; then
        echo "PyTorch 1.8.1 cannot be installed: the tests on the real Caffe2 will skip" >&2
        exit 1
    fi
fi
"$directory/bin/python" -I -c "$check" >/dev/null 2>&1 || {
    echo "the Caffe2 in $directory does not start: the tests on the real Caffe2 will skip" >&2
    exit 1
}