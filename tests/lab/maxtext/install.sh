#!/bin/sh
# Makes MaxText's environment: install.sh FOLDER [PYTHON], PYTHON being a Python 3.12 if the PATH and pyenv have none.
set -eu
folder=$1
for python in "${2:-python3.12}" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
        "$python" -m venv "$folder"
        exec "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "${0%/*}/requirements.txt"
    fi
done
echo "MaxText needs Python 3.12, and there is none: make integration-maxtext MAXTEXT_PYTHON=/path/to/python3.12" >&2
exit 1
