# The locked packages into /opt/venv. LOCKS names the files: the common one, and for a GPU the CUDA libraries besides;
# INDEX, where it is not empty, a further package index (torch's own for builds without CUDA).
set -eu
python3 -m venv /opt/venv
options="${INDEX:+--extra-index-url ${INDEX}}"
for lock in ${LOCKS}; do
    options="${options} --requirement ${lock}"
done
# shellcheck disable=SC2086
/opt/venv/bin/pip install -qq --disable-pip-version-check --no-cache-dir --no-compile --no-deps ${options}
# The user of the image cannot write here, so without this every start would compile torch's modules again. Left out is
# a test file of torch written for a newer Python than this may be.
/opt/venv/bin/python -m compileall -q -j 0 -x 'py312_intrinsics' /opt/venv/lib
